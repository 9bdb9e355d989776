package elastic

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/schemas"
)

// watched is the real server, with a record of its points in time.
type watched struct {
	*Store
	mu             sync.Mutex
	opened, closed int
	pit            string // the last that was asked
	searches       int
	largest        int // documents with sources in one answer
}

func watch(t *testing.T) *watched {
	w := &watched{}
	w.Store = throughProxy(t, func(response http.ResponseWriter, r *http.Request, real http.Handler) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		w.note(r, body)
		real.ServeHTTP(response, r)
	})
	if err := w.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *watched) note(r *http.Request, body []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case isPIT(r) && r.Method == "POST":
		w.opened++
	case isPIT(r):
		w.closed++
	case r.URL.Path == "/_search":
		w.searches++
		var search struct {
			PIT    struct{ ID string }
			Source any `json:"_source"`
			Size   int
		}
		if json.Unmarshal(body, &search) == nil {
			w.pit = search.PIT.ID
			if search.Source != false {
				w.largest = max(w.largest, search.Size)
			}
		}
	}
}

func isPIT(r *http.Request) bool {
	return strings.HasSuffix(r.URL.Path, "/_pit") || strings.HasSuffix(r.URL.Path, "/_search/point_in_time")
}

// forget deletes the open point in time, as if it had expired.
func (w *watched) forget(t *testing.T) {
	w.mu.Lock()
	pit := w.pit
	w.mu.Unlock()
	dialect, err := w.dialect(t.Context(), "forgetting a point in time")
	if err == nil {
		direct := open(t, Config{})
		err = direct.requestJSON(t.Context(), "forgetting a point in time", dialect.closePIT(pit), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (w *watched) wantClosed(t *testing.T, opened int) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.opened != opened || w.closed != opened {
		t.Errorf("opened %d points in time and closed %d, want %d each", w.opened, w.closed, opened)
	}
}

func TestPointsInTimeAreClosed(t *testing.T) {
	w := watch(t)
	create(t, w.Store, eventDocuments(1, 3)...)
	if err := w.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range w.Events(t.Context(), eventstore.Selection{}) {
	}
	w.wantClosed(t, 1)
	for range w.Events(t.Context(), eventstore.Selection{}) {
		break
	}
	w.wantClosed(t, 2)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range w.Events(ctx, eventstore.Selection{WithoutBody: true}) {
		cancel()
	}
	w.wantClosed(t, 3)
	func() {
		defer func() { _ = recover() }()
		for range w.Events(t.Context(), eventstore.Selection{}) {
			panic("the reader")
		}
	}()
	w.wantClosed(t, 4)
}

// TestForgottenPointInTime deletes it between documents with the same sequence, on both
// sides of the end of a page.
func TestForgottenPointInTime(t *testing.T) {
	const all = 2 * maxPage
	w := watch(t)
	docs := eventDocuments(1, all)
	for n := maxPage - 20; n < maxPage+20; n++ {
		tied := event(n + 1)
		tied.Sequence, tied.Time = maxPage-19, event(maxPage-19).Time
		docs[n] = schemas.DocumentFormat{}.Document(tied)
	}
	rand.Shuffle(len(docs), func(i, j int) { docs[i], docs[j] = docs[j], docs[i] })
	create(t, w.Store, docs...)
	if err := w.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, sel := range []eventstore.Selection{
		{Order: eventstore.BySequence}, {Order: eventstore.BySequence, WithoutBody: true}, {Order: eventstore.NewestFirst},
	} {
		before := w.opened
		seen := map[string]bool{}
		var ids []string
		for event, err := range w.Events(t.Context(), sel) {
			if err != nil {
				t.Fatal(err)
			}
			if len(ids) == 0 {
				w.forget(t)
			}
			seen[event.EventID] = true
			ids = append(ids, event.EventID)
		}
		if len(ids) != all || len(seen) != all {
			t.Errorf("%+v: read %d events, %d of them different, want %d", sel, len(ids), len(seen), all)
		}
		if sel.Order == eventstore.BySequence && !slices.IsSorted(ids) {
			t.Errorf("%+v: not in order", sel)
		}
		if w.opened != before+2 {
			t.Errorf("%+v: opened %d points in time, want 2", sel, w.opened-before)
		}
	}
}

// TestForgottenAgain: a second time in a row is an error, since the server loses every
// point in time.
func TestForgottenAgain(t *testing.T) {
	s := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "_pit") {
			fmt.Fprint(w, `{"id":"x"}`)
			return
		}
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"error":{"type":"search_phase_execution_exception","reason":"all shards failed","root_cause":[{"type":"search_context_missing_exception","reason":"No search context found for id [1]"}]}}`)
	})
	turns := 0
	for _, err := range s.Events(t.Context(), eventstore.Selection{}) {
		turns++
		wantStoreError(t, err, eventstore.Unauthorized)
	}
	if turns != 1 {
		t.Errorf("%d turns, want 1", turns)
	}
}

// TestRepeatedAcrossARollover: a rollover hides older documents from Create only.
func TestRepeatedAcrossARollover(t *testing.T) {
	t.Parallel() // most of it is waiting
	s := installed(t, Config{})
	docs := eventDocuments(1, maxPage+10)
	create(t, s, docs...)
	rollOver(t, s, schemas.Traffic)
	ids := make([]string, len(docs))
	for i, doc := range docs {
		ids[i] = doc.ID
	}
	found, err := s.Find(t.Context(), ids)
	if err != nil || len(found) != len(docs) {
		t.Errorf("found %d of %d documents in the older index: %v", len(found), len(docs), err)
	}
	create(t, s, docs...) // as a writer does that does not look
	other := event(5)
	other.Sequence = 1 << 40 // an id again, but another sequence: another event
	other.Time = event(maxPage * 3).Time
	rollOver(t, s, schemas.Traffic)
	create(t, s, schemas.DocumentFormat{}.Document(other))
	if err := s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, sel := range []eventstore.Selection{
		{}, {Order: eventstore.BySequence}, {WithoutBody: true}, {Order: eventstore.BySequence, Limit: maxPage + 11},
	} {
		wantOnce(t, s, sel, append(docs, schemas.Document{ID: other.EventID}))
	}
	if n, err := s.Count(t.Context(), eventstore.Selection{}); err != nil || n != int64(2*len(docs)+1) {
		t.Errorf("counted %d, %v, want %d documents", n, err, 2*len(docs)+1)
	}
}

func wantOnce(t *testing.T, s *Store, sel eventstore.Selection, docs []schemas.Document) {
	t.Helper()
	var got, want []string
	for event, err := range s.Events(t.Context(), sel) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, event.EventID)
	}
	for _, doc := range docs {
		want = append(want, doc.ID)
	}
	if sel.Order == eventstore.NewestFirst {
		slices.Reverse(want)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v: read %d events, want %d, each once and in order", sel, len(got), len(want))
	}
}

// TestResetAfterTheBulk: documents that were written before a reset conflict afterwards.
func TestResetAfterTheBulk(t *testing.T) {
	var fail atomic.Bool
	s := throughProxy(t, func(w http.ResponseWriter, r *http.Request, real http.Handler) {
		if !fail.Load() || r.URL.Path != "/_bulk" {
			real.ServeHTTP(w, r)
			return
		}
		real.ServeHTTP(discard{http.Header{}}, r)
		broken(w)
	})
	if err := s.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	docs := eventDocuments(1, 10)
	fail.Store(true)
	_, err := s.Create(t.Context(), docs)
	wantStoreError(t, err, eventstore.Unavailable)
	fail.Store(false)
	results, err := s.Create(t.Context(), docs)
	if err != nil {
		t.Fatal(err)
	}
	for i, result := range results {
		if result.Status != eventstore.Conflict || result.Index == "" {
			t.Errorf("document %d: %+v, want a conflict with what was taken", i, result)
		}
	}
}

type discard struct{ header http.Header }

func (d discard) Header() http.Header       { return d.header }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}

// TestLimitIsCheap: the few newest events cost one plan and one page.
func TestLimitIsCheap(t *testing.T) {
	w := watch(t)
	create(t, w.Store, eventDocuments(1, 10)...)
	if err := w.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range w.Events(t.Context(), eventstore.Selection{Limit: 3}) {
	}
	if w.searches != 2 {
		t.Errorf("%d searches, want 2", w.searches)
	}
}

// TestLargeBodies: pages of large bodies are small. The second document is tied with the
// third, in the next page, before which the point in time is deleted.
func TestLargeBodies(t *testing.T) {
	w := watch(t)
	want := map[string][]byte{}
	for n := 1; n <= 6; n++ {
		e := event(n)
		if n == 3 {
			e.Sequence = 2
		}
		e.Envelope.Body = bytes.Repeat([]byte{byte(n), 0xff, 'x', '\n'}, 3<<18) // 3 MiB
		e.BodySize = len(e.Envelope.Body)
		want[e.EventID] = e.Envelope.Body
		create(t, w.Store, schemas.DocumentFormat{}.Document(e))
	}
	if err := w.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for event, err := range w.Events(t.Context(), eventstore.Selection{Order: eventstore.BySequence}) {
		if err != nil {
			t.Fatal(err)
		}
		if len(want) == 6 {
			w.forget(t)
		}
		if !bytes.Equal(event.Envelope.Body, want[event.EventID]) {
			t.Errorf("the body of %s changed, or it came twice", event.EventID)
		}
		delete(want, event.EventID)
	}
	if len(want) != 0 || w.largest != 2 {
		t.Errorf("%d events are missing; up to %d were read at once, want 2", len(want), w.largest)
	}
}

func TestPlannedPageLength(t *testing.T) {
	sized := func(sizes ...int64) []hit {
		var hits []hit
		for _, size := range sizes {
			hits = append(hits, hit{BodySize: size})
		}
		return hits
	}
	for _, tt := range []struct {
		planned []hit
		want    int
	}{
		{nil, 0},
		{sized(0), 1},
		{sized(maxPageBytes * 2), 1},
		{sized(1, maxPageBytes*2), 1},
		{sized(maxPageBytes/2, maxPageBytes/2, 1), 2},
		{[]hit{{}, {}}, 2}, // no size: of another program
	} {
		if got := plannedPageLength(tt.planned); got != tt.want {
			t.Errorf("%v: got %d, want %d", tt.planned, got, tt.want)
		}
	}
}

// TestTooLargeARequest sends a body beyond http.max_content_length, 100 MB.
func TestTooLargeARequest(t *testing.T) {
	s := installed(t, Config{})
	doc := document("large")
	doc.Source = fmt.Appendf(nil, `{"@timestamp":"2026-01-01T00:00:00Z","body":{"raw":%q}}`, strings.Repeat("QUFB", 27<<20))
	_, err := s.Create(t.Context(), []schemas.Document{doc})
	wantStoreError(t, err, eventstore.RequestTooLarge)
}

func FuzzBulkResponse(f *testing.F) {
	f.Add(`{"items":[{"create":{"_id":"a","status":201}},{"create":{"_id":"b","status":201}}]}`)
	f.Add(`{"items":[{"create":{"_id":"a","status":201}},{"create":{"_id":"b","status":400,"error":"x"}}]}`)
	f.Add(`{"items":[{"create":null},{}]}`)
	f.Add(`[]`)
	w := writer{&client{}}
	docs := []schemas.Document{document("a"), document("b")}
	f.Fuzz(func(t *testing.T, response string) {
		results, err := w.parseBulk([]byte(response), docs)
		var failed *eventstore.Error
		if err != nil && !errors.As(err, &failed) || err == nil && len(results) != len(docs) {
			t.Fatalf("got %v, %v", results, err)
		}
		for _, result := range results {
			if result.Status < eventstore.Created || result.Status > eventstore.Busy {
				t.Errorf("no status: %+v", result)
			}
		}
	})
}

// TestPagesAreBounded: everything is read in order for any sizes of bodies, and no
// response is much larger than the text and the JSON of maxPageBytes.
func TestPagesAreBounded(t *testing.T) {
	for name, sizes := range map[string]func(n int) int{
		"all small":  func(int) int { return 100 },
		"all medium": func(int) int { return 30 << 10 },
		"some large": func(n int) int { return 100 + n%100/99*(1<<20) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var longest atomic.Int64
			s := throughProxy(t, func(w http.ResponseWriter, r *http.Request, real http.Handler) {
				recorded := httptest.NewRecorder()
				real.ServeHTTP(recorded, r)
				longest.Store(max(longest.Load(), int64(recorded.Body.Len())))
				maps.Copy(w.Header(), recorded.Header())
				w.WriteHeader(recorded.Code)
				_, _ = w.Write(recorded.Body.Bytes())
			})
			if err := s.Install(t.Context()); err != nil {
				t.Fatal(err)
			}
			const events = 1000
			for first := 1; first <= events; first += 100 {
				var docs []schemas.Document
				for n := first; n < first+100; n++ {
					e := event(n)
					e.Envelope.Body = fmt.Appendf(nil, `{"x":%q}`, strings.Repeat("x", sizes(n)))
					e.BodySize = len(e.Envelope.Body)
					docs = append(docs, schemas.DocumentFormat{}.Document(e))
				}
				create(t, s, docs...)
			}
			if err := s.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			longest.Store(0)
			next := int64(1)
			for e, err := range s.Events(t.Context(), eventstore.Selection{Order: eventstore.BySequence}) {
				if err != nil || e.Sequence != next || len(e.Envelope.Body) != e.BodySize {
					t.Fatalf("event %d where %d comes, with %d bytes: %v", e.Sequence, next, len(e.Envelope.Body), err)
				}
				next++
			}
			if next != events+1 || longest.Load() > 3*maxPageBytes {
				t.Errorf("%d events, at most %d bytes at once", next-1, longest.Load())
			}
		})
	}
}
