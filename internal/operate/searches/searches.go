// Package searches has the searches that people save for one another: pages of the console with their
// query, period and columns, under a name. They are records of the store.
package searches

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/operation/code"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/system"
)

// Search is a saved search.
type Search struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Address string    `json:"address" doc:"Path and query of the page of the console"`
	Query   string    `json:"query,omitempty" doc:"Its query in KQL"`
	By      string    `json:"by,omitempty" doc:"Who saved or renamed it last"`
	At      time.Time `json:"at" doc:"When that was"`
}

const (
	recordKind = "search"

	// maxSearches bounds the list, which pages show as a whole.
	maxSearches = 200
	maxName     = 100  // characters
	maxAddress  = 6000 // bytes
)

// Pages returns the paths of the pages whose searches can be saved.
func Pages() []string { return []string{"/messages", "/failures", "/waiting"} }

// Service keeps the searches of a System.
type Service struct{ System *system.System }

// List returns the searches by name.
func (s Service) List(ctx context.Context) ([]Search, error) {
	store, err := s.System.Store(ctx)
	if err != nil {
		return nil, err
	}
	list := []Search{}
	for document, err := range store.Records(ctx, recordKind) {
		if err != nil {
			return nil, fmt.Errorf("reading the saved searches: %w", err)
		}
		var found Search
		if err := json.Unmarshal(document, &found); err != nil {
			continue // of a later version
		}
		list = append(list, found)
	}
	slices.SortFunc(list, func(a, b Search) int {
		return cmp.Or(strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)), strings.Compare(a.ID, b.ID))
	})
	return list, ctx.Err()
}

// Save saves a page of the console under a name. A search with the same name is replaced.
func (s Service) Save(ctx context.Context, name, address, by string) (Search, error) {
	name, query, err := check(name, address)
	if err != nil {
		return Search{}, err
	}
	list, err := s.List(ctx)
	if err != nil {
		return Search{}, err
	}
	saved := Search{ID: rand.Text(), Name: name, Address: address, Query: query, By: by, At: time.Now().UTC()}
	if i := slices.IndexFunc(list, func(other Search) bool { return other.Name == name }); i >= 0 {
		saved.ID = list[i].ID
	} else if len(list) >= maxSearches {
		return Search{}, &problem.Problem{Code: code.Conflict, Detail: fmt.Sprintf("there are %d saved searches already", maxSearches), Remedy: "Delete some."}
	}
	return saved, s.change(ctx, saved.ID, func(kept *Search) error {
		*kept = saved
		return nil
	})
}

// Rename gives a search another name.
func (s Service) Rename(ctx context.Context, id, name, by string) (Search, error) {
	list, err := s.List(ctx)
	if err != nil {
		return Search{}, err
	}
	i := slices.IndexFunc(list, func(other Search) bool { return other.ID == id })
	if i < 0 {
		return Search{}, notFound(id)
	}
	if name, _, err = check(name, list[i].Address); err != nil {
		return Search{}, err
	}
	if slices.ContainsFunc(list, func(other Search) bool { return other.Name == name && other.ID != id }) {
		return Search{}, &problem.Problem{Code: code.Conflict, Detail: fmt.Sprintf("another search is named %q", name), Remedy: "Choose another name."}
	}
	var renamed Search
	err = s.change(ctx, id, func(kept *Search) error {
		if kept.ID == "" { // deleted by another process since it was listed
			return notFound(id)
		}
		kept.Name, kept.By, kept.At = name, by, time.Now().UTC()
		renamed = *kept
		return nil
	})
	return renamed, err
}

// Delete deletes a search.
func (s Service) Delete(ctx context.Context, id string) error {
	store, err := s.System.Store(ctx)
	if err != nil {
		return err
	}
	for {
		var found Search
		version, err := eventstore.ReadRecord(ctx, store, recordKind, id, &found)
		if err != nil {
			return err
		}
		if version == "" {
			return notFound(id)
		}
		if deleted, err := store.DeleteRecord(ctx, recordKind, id, version); deleted || err != nil {
			return err
		}
	}
}

// change saves a search that a function changes, until no other process is faster.
func (s Service) change(ctx context.Context, id string, change func(kept *Search) error) error {
	store, err := s.System.Store(ctx)
	if err != nil {
		return err
	}
	for {
		var kept Search
		version, err := eventstore.ReadRecord(ctx, store, recordKind, id, &kept)
		if err != nil {
			return err
		}
		if err := change(&kept); err != nil {
			return err
		}
		if saved, err := eventstore.SaveRecord(ctx, store, recordKind, id, version, kept); saved != "" || err != nil {
			return err
		}
	}
}

// check returns the name without spaces around it, and the query of the address.
func check(name, address string) (trimmed, query string, err error) {
	trimmed = strings.TrimSpace(name)
	page, err := url.Parse(address)
	switch {
	case trimmed == "" || utf8.RuneCountInString(trimmed) > maxName || !utf8.ValidString(trimmed):
		return "", "", problem.BadRequest(fmt.Sprintf("the name %q does not fit", name), fmt.Sprintf("Give a name of 1 to %d characters.", maxName))
	case err != nil || page.Host != "" || page.Scheme != "" || !slices.Contains(Pages(), page.Path) || len(address) > maxAddress:
		return "", "", problem.BadRequest(fmt.Sprintf("%q is no page whose search can be saved", address), "Give the path of one, as "+strings.Join(Pages(), ", ")+", with its query.")
	}
	return trimmed, page.Query().Get("q"), nil
}

func notFound(id string) error { return problem.NotFound("there is no saved search " + id) }
