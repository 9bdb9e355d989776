package cli

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/elastic"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/internal/system/secret"
	"github.com/watershipmq/watership/schemas"
)

// role is the role that the page on security gives to Watership at Elasticsearch.
type role struct {
	Cluster []string `json:"cluster"`
	Indices []struct {
		Names      []string `json:"names"`
		Privileges []string `json:"privileges"`
	} `json:"indices"`
}

func documentedRole(t *testing.T) role {
	t.Helper()
	var r role
	if err := json.Unmarshal([]byte(documented(t)), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// narrower are the role without each of its privileges in turn, by what it lacks.
func (r role) narrower(t *testing.T) map[string]role {
	t.Helper()
	all := map[string]role{}
	for n, privilege := range r.Cluster {
		one := documentedRole(t)
		one.Cluster = slices.Delete(one.Cluster, n, n+1)
		all["cluster "+privilege] = one
	}
	for i, names := range r.Indices {
		for n, privilege := range names.Privileges {
			one := documentedRole(t)
			one.Indices[i].Privileges = slices.Delete(one.Indices[i].Privileges, n, n+1)
			all[fmt.Sprintf("index %d %s", i+1, privilege)] = one
		}
	}
	return all
}

// Each of the documented privileges is needed: without it something fails. To see
// that takes a stream of its own for each.
func TestSoakDocumentedRightsAreNeeded(t *testing.T) {
	if os.Getenv("WATERSHIP_TEST_SOAK") == "" {
		t.Skip("WATERSHIP_TEST_SOAK is not set")
	}
	store := newSecured(t)
	full := documentedRole(t)
	roles := full.narrower(t)
	roles["nothing"] = full
	users := store.give(t, roles)
	for lacking, user := range users {
		t.Run(lacking, func(t *testing.T) {
			t.Parallel()
			if strings.HasSuffix(lacking, "manage_data_stream_lifecycle") {
				t.Skip("the Elasticsearch of the tests lacks the request that needs it")
			}
			err := store.everything(t, user)
			switch {
			case lacking == "nothing" && err != nil:
				t.Error(err)
			case lacking != "nothing" && (err == nil || !strings.Contains(err.Error(), "unauthorized")):
				t.Errorf("nothing that Watership does needs it: %v", err)
			}
		})
	}
}

// give makes a user for each role, with streams named like the user, until the test
// ends. The server reads its files again when they change.
func (s secured) give(t *testing.T, roles map[string]role) (users map[string]string) {
	t.Helper()
	users = map[string]string{}
	var definitions, accounts, assignments strings.Builder
	hash := s.hash(t)
	for lacking, r := range roles {
		user := "t" + strings.ToLower(rand.Text()[:8])
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		users[lacking] = user
		fmt.Fprintf(&definitions, "%s: %s\n", user, strings.ReplaceAll(string(text), "watership-messages", user))
		fmt.Fprintf(&accounts, "%s:%s\n", user, hash)
		fmt.Fprintf(&assignments, "%s:%s\n", user, user)
	}
	s.add(t, "users_roles", assignments.String())
	s.add(t, "roles.yml", definitions.String())
	s.add(t, "users", accounts.String())
	servertest.Until(t, "the users to have their rights", func() bool {
		return strings.Contains(s.as(t, users["nothing"], http.MethodGet, "/_security/user/_privileges", ""), users["nothing"]+"-traffic")
	})
	return users
}

// hash returns the hash of the password.
func (s secured) hash(t *testing.T) string {
	t.Helper()
	accounts, err := os.ReadFile(s.file("users"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(accounts), "watership:")
	hash, _, _ := strings.Cut(rest, "\n")
	return hash
}

// add adds lines to a file of the server until the test ends.
func (s secured) add(t *testing.T, name, lines string) {
	t.Helper()
	before, err := os.ReadFile(s.file(name))
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		if err := os.WriteFile(s.file(name), []byte(text), 0o644); err != nil { //nolint:gosec // the server's
			t.Error(err)
		}
	}
	t.Cleanup(func() { write(string(before)) })
	write(strings.TrimRight(string(before), "\n") + "\n" + lines)
}

// everything makes every request of Watership to Elasticsearch, for a stream with an
// older mapping. It ends with the first error.
func (s secured) everything(t *testing.T, user string) error {
	t.Helper()
	conf, err := secret.TLS("store.tls", s.tls())
	if err != nil {
		t.Fatal(err)
	}
	store, err := elastic.Open(elastic.Config{
		URLs: []string{s.url}, TLS: conf, Username: user, Password: s.secret(t), Stream: user,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	ctx := t.Context()
	for _, step := range []func() error{
		func() error { return store.Install(ctx) },
		func() error { s.makeOlder(t, user); return store.Check(ctx) },
		func() error { return createBoth(t, store, 1) },
		func() error { s.neverRefresh(t, user+"-traffic,"+user+"-failures"); return createBoth(t, store, 3) },
		func() error { return wantAll(store.HighestSequence(ctx))(4) },
		func() error { return store.Install(ctx) }, // rolls over
		func() error { return wantAll(store.Count(ctx, eventstore.Selection{}))(4) },
		func() error { return drained(store.Events(ctx, eventstore.Selection{})) },
		func() error { return drained(store.Summaries(ctx, eventstore.Selection{})) },
		func() (err error) {
			_, err = store.TopValues(ctx, eventstore.Selection{}, "event.action", 1)
			return err
		},
		func() (err error) { _, err = store.Clock(ctx); return err },
		func() error { return s.keepJobs(t, store, user+".jobs") },
		func() error { return s.keepRecords(t, store, user+".records") },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// errBlind is the result of a search without rights: an empty answer.
var errBlind = errors.New("unauthorized, and not told so")

func wantAll(got int64, err error) func(want int64) error {
	return func(want int64) error {
		if err == nil && got != want {
			return errBlind
		}
		return err
	}
}

// neverRefresh leaves it to us to make documents visible. What the server is about
// to make visible by itself must not take the next ones with it.
func (s secured) neverRefresh(t *testing.T, indices string) {
	t.Helper()
	s.as(t, "admin", http.MethodPost, "/"+indices+"/_refresh", "")
	s.as(t, "admin", http.MethodPut, "/"+indices+"/_settings", `{"index.refresh_interval":"-1"}`)
}

// makeOlder takes the version out of the mapping that the next index gets.
func (s secured) makeOlder(t *testing.T, stream string) {
	t.Helper()
	var template map[string]any
	if err := json.Unmarshal(eventstore.MappingsTemplate(), &template); err != nil {
		t.Fatal(err)
	}
	delete(template["template"].(map[string]any)["mappings"].(map[string]any), "_meta")
	older, err := json.Marshal(template)
	if err != nil {
		t.Fatal(err)
	}
	s.as(t, "admin", http.MethodPut, "/_component_template/"+stream+"-mappings", string(older))
}

// createBoth creates a document in each stream.
func createBoth(t *testing.T, store *elastic.Store, sequence int64) error {
	t.Helper()
	var documents []schemas.Document
	for n, action := range []schemas.Action{schemas.Published, schemas.Poisoned} {
		event := schemas.Event{Action: action, Source: "test", Sequence: sequence + int64(n)}
		event.EventID, event.Time = fmt.Sprint(event.Sequence), time.Now()
		documents = append(documents, schemas.DocumentFormat{}.Document(event))
	}
	results, err := store.Create(t.Context(), documents)
	for _, result := range results {
		if result.Status != eventstore.Created {
			err = errors.Join(err, errors.New(result.Reason))
		}
	}
	return err
}

func (s secured) keepJobs(t *testing.T, store *elastic.Store, index string) error {
	t.Helper()
	version, err := store.CreateJob(t.Context(), "one", []byte("{}"))
	if err != nil {
		return err
	}
	s.neverRefresh(t, index)
	if _, err = store.SaveJob(t.Context(), "one", version, []byte("{}")); err != nil {
		return err
	}
	if _, err := store.CreateJob(t.Context(), "two", []byte("{}")); err != nil {
		return err
	}
	if _, _, err := store.Job(t.Context(), "one"); err != nil {
		return err
	}
	found := int64(0)
	for _, err := range store.Jobs(t.Context()) {
		if err != nil {
			return err
		}
		found++
	}
	return wantAll(found, nil)(2)
}

func (s secured) keepRecords(t *testing.T, store *elastic.Store, index string) error {
	t.Helper()
	version, err := store.CreateRecord(t.Context(), "test", "one", []byte("{}"))
	if err != nil {
		return err
	}
	s.neverRefresh(t, index)
	if version, err = store.SaveRecord(t.Context(), "test", "one", version, []byte("{}")); err != nil {
		return err
	}
	found := int64(0)
	for _, err := range store.Records(t.Context(), "test") {
		if err != nil {
			return err
		}
		found++
	}
	if err := wantAll(found, nil)(1); err != nil {
		return err
	}
	_, err = store.DeleteRecord(t.Context(), "test", "one", version)
	return err
}

func drained[T any](values iter.Seq2[T, error]) error {
	for _, err := range values {
		if err != nil {
			return err
		}
	}
	return nil
}
