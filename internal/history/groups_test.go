package history

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/schemas"
)

// Groups are sorted by their counts, and tell when their failures happened.
func TestGroups(t *testing.T) {
	store, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "store.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if err := store.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	begin := time.Date(2026, 5, 4, 3, 0, 0, 0, time.UTC)
	var docs []schemas.Document
	for i, queue := range []string{"orders", "orders", "mail"} {
		e := schemas.Event{Sequence: int64(i + 1), Action: schemas.Poisoned}
		e.EventID, e.Time, e.Queue = fmt.Sprint("e-", i), begin.Add(time.Duration(i)*time.Minute), queue
		e.Message, e.Fingerprint = fmt.Sprint("i-", i), fmt.Sprint("v1:", i)
		docs = append(docs, schemas.DocumentFormat{}.Document(e))
	}
	if _, err := store.Create(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
	failures, err := NewFailures(t.Context(), store, nil)
	if err != nil {
		t.Fatal(err)
	}
	groups, err := failures.Groups(t.Context(), kql.All{})
	if err != nil || len(groups) != 2 || groups[0].Queue != "orders" {
		t.Fatalf("%v, %v", groups, err)
	}
	if h := groups[0].Histogram; len(h.Counts) < 2 || h.Counts[0] != 1 || h.Counts[len(h.Counts)-1] != 1 || !h.End().After(groups[0].Last) {
		t.Errorf("%+v", h)
	}
	found, err := failures.OpenByID(t.Context(), kql.All{}, []string{"e-2", "i-0", "e-0"})
	if ids := EventIDs(found); err != nil || !slices.Equal(ids, []string{"e-0", "e-2"}) {
		t.Errorf("%q, %v", ids, err)
	}
}

func TestKindInAQuery(t *testing.T) {
	whole := Kind{Queue: "orders", Class: "stock", Type: "http.Status", Group: `no "stock" of #: (x)*`}
	bare := Kind{Queue: "orders", Group: "no stock"}
	for query, want := range map[string]Kind{
		whole.Query().String(): whole, bare.Query().String(): bare,
		"(" + whole.Query().String() + ") and headers.tenant: acme": whole,
	} {
		if got, is := KindIn(query); !is || got != want {
			t.Errorf("%s: %+v, %t", query, got, is)
		}
	}
	for _, query := range []string{"", "*", "watership.queue: orders", `watership.queue: "orders" and watership.error_group: "no stock"`, "not (" + whole.Query().String() + ")", "queue:"} {
		if got, is := KindIn(query); is {
			t.Errorf("%s: %+v", query, got)
		}
	}
}
