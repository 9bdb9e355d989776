package failures

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/render/columns"
	"github.com/watershipmq/watership/internal/storeread"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/schemas"
)

// FailuresBy are unresolved failures by the values of some fields.
type FailuresBy struct {
	Fields []string     `json:"fields" nullable:"false" doc:"Full names of the fields"`
	Groups []FieldGroup `json:"groups" nullable:"false" doc:"The 1000 with the most failures"`

	Failures int `json:"failures" doc:"Number of failures in all groups"`
	Total    int `json:"total" doc:"Number of all groups"`
}

// FieldGroup has the failures with some values, one for each field.
type FieldGroup struct {
	Values  []string  `json:"values" nullable:"false" doc:"Values of the fields; an empty one: the failures have none"`
	Count   int       `json:"count"`
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`
	Example string    `json:"example" doc:"An id of the newest message"`
}

// Bounds of a ListBy.
const (
	MaxFields      = 5
	maxFieldGroups = 10_000
	maxListed      = 1000
	eventChunk     = 500
)

// ListBy returns the unresolved failures that match a query by the values of fields, the most
// frequent first.
func (s Service) ListBy(ctx context.Context, node kql.Node, fields []kql.Field) (FailuresBy, error) {
	by := FailuresBy{Groups: []FieldGroup{}}
	for _, field := range fields {
		by.Fields = append(by.Fields, field.Name)
	}
	failures, err := Unresolved(ctx, s.System)
	if err != nil {
		return by, err
	}
	g := grouping{Service: s, fields: by.Fields, groups: map[string]*FieldGroup{}}
	var ids []string
	for failure, err := range failures.Open(ctx, node) {
		if err != nil {
			return by, err
		}
		if ids = append(ids, failure.EventID); len(ids) == eventChunk {
			if err := g.read(ctx, ids); err != nil {
				return by, err
			}
			ids = ids[:0]
		}
	}
	if err := g.read(ctx, ids); err != nil {
		return by, err
	}
	for _, group := range slices.SortedFunc(maps.Values(g.groups), func(a, b *FieldGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), b.Last.Compare(a.Last), slices.Compare(a.Values, b.Values))
	}) {
		by.Failures, by.Total = by.Failures+group.Count, by.Total+1
		if len(by.Groups) < maxListed {
			by.Groups = append(by.Groups, *group)
		}
	}
	return by, nil
}

// Fields returns the fields with full or short names that failures can be grouped by.
func Fields(lang interface {
	Field(name string) (kql.Field, error)
}, names []string,
) (fields []kql.Field, err error) {
	for _, name := range names {
		if strings.TrimSpace(name) == "" {
			return nil, system.InputError{Err: errors.New("expected fields, such as headers.tenant,queue")}
		}
		field, err := lang.Field(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(fields, func(f kql.Field) bool { return f.Name == field.Name }) {
			return nil, system.InputError{Err: fmt.Errorf("%s is given twice: expected each field once", field.Name)}
		}
		if field.Type == kql.Text {
			return nil, system.InputError{Err: fmt.Errorf("%s has texts, and failures cannot be grouped by it", field.Name)}
		}
		fields = append(fields, field)
	}
	if len(fields) == 0 || len(fields) > MaxFields {
		return nil, system.InputError{Err: fmt.Errorf("expected one to %d fields", MaxFields)}
	}
	return fields, nil
}

// grouping counts failures by the values of fields.
type grouping struct {
	Service
	fields []string
	groups map[string]*FieldGroup
}

// read counts the failures with some ids.
func (g *grouping) read(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	events, err := g.System.Store(ctx)
	if err != nil {
		return err
	}
	var either kql.Or
	for _, id := range ids {
		either = append(either, kql.FieldIs("event.id", id))
	}
	selection := eventstore.Selection{
		Query: either, Order: eventstore.BySequence,
		WithoutBody: !slices.ContainsFunc(g.fields, func(name string) bool { return strings.HasPrefix(name, "body.") }),
	}
	for e, err := range storeread.Readable(events.Events(ctx, selection)) {
		if err != nil {
			return err
		}
		if err := g.add(e); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (g *grouping) add(e schemas.Event) error {
	document, err := columns.Parse(g.System.DocumentFormat().Append(nil, e))
	if err != nil {
		return err
	}
	values := make([]string, len(g.fields))
	for i, name := range g.fields {
		values[i] = document.Text(name)
	}
	key := strings.Join(values, "\x00")
	group := g.groups[key]
	if group == nil {
		if len(g.groups) == maxFieldGroups {
			return system.InputError{Err: errors.New("the fields have more than 10,000 different values: choose others, or a query")}
		}
		group = &FieldGroup{Values: values, First: e.Time}
		g.groups[key] = group
	}
	group.Count++
	if e.Time.Before(group.First) {
		group.First = e.Time
	}
	if !e.Time.Before(group.Last) {
		group.Last, group.Example = e.Time, columns.MessageID(e)
	}
	return nil
}
