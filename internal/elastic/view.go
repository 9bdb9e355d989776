package elastic

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/elastic/go-elasticsearch/v8/esapi"

	"github.com/watershipmq/watership/schemas"
)

const (
	// keepAlive is how long Elasticsearch keeps a point in time that nobody
	// asks; each page begins it anew. It keeps deleted segments on disk.
	keepAlive = "5m"

	// longestPage is the most that one search may give
	// (index.max_result_window is 10,000).
	longestPage = 1000

	// largestRun is how many bytes of bodies are read at once, so that a
	// thousand messages of 16 MiB in a row cannot exhaust the memory of
	// Elasticsearch or ours. One body may be larger.
	largestRun = 8 << 20

	bodySize = "messaging.message.body.size"
)

// view reads what a selection finds, page by page, from a point in time.
type view struct {
	store   *Store
	query   map[string]any
	sort    []any
	whole   bool              // with bodies
	pit     string            // the point in time; "" before the first page
	after   []json.RawMessage // sort values of the last document read
	planned []hit             // the next documents, so far without their source
}

// newView sorts so that documents that repeat one another come together. What
// has no sequence or id is not ours and comes last.
func (s *Store) newView(sel schemas.Selection) *view {
	v := &view{store: s, query: s.filter(sel), whole: !sel.WithoutBody}
	switch sel.Order {
	case schemas.BySequence:
		v.sort = []any{by("event.sequence", "asc", "long"), by("event.id", "asc", "keyword")}
	default:
		v.sort = []any{by("@timestamp", "desc", "date"), by("event.sequence", "desc", "long"), by("event.id", "desc", "keyword")}
	}
	v.sort = append(v.sort, "_shard_doc") // tells equal ones apart, within a point in time
	return v
}

func by(field, order, kind string) map[string]any {
	return map[string]any{field: map[string]any{"order": order, "missing": "_last", "unmapped_type": kind}}
}

// next reads up to limit documents; none means that there are no more. A point
// in time that is gone is opened again behind the last document read, so a
// reader may take hours; it then also gives what was written meanwhile and
// belongs behind.
func (v *view) next(ctx context.Context, limit int) ([]hit, error) {
	hits, err := v.read(ctx, limit)
	if !says(err, "search_context_missing_exception") {
		return hits, err
	}
	v.pit, v.planned = "", nil
	if len(v.after) > 0 {
		// The place within a shard meant something to the old one only.
		v.after[len(v.after)-1] = json.RawMessage("9223372036854775807")
	}
	return v.read(ctx, limit)
}

func (v *view) read(ctx context.Context, limit int) ([]hit, error) {
	if v.pit == "" {
		if err := v.open(ctx); err != nil {
			return nil, err
		}
	}
	run := limit
	if v.whole {
		if err := v.plan(ctx, limit); err != nil {
			return nil, err
		}
		if run = runLength(v.planned); run == 0 {
			return nil, nil
		}
	}
	hits, err := v.search(ctx, run, map[string]any{"_source": v.source()})
	if err != nil || len(hits) == 0 && !v.whole {
		return nil, err
	}
	if v.whole {
		if len(hits) != run {
			return nil, v.store.nonsense("reading events", fmt.Sprintf("gave %d documents where it had %d", len(hits), run))
		}
		v.planned = v.planned[run:]
	}
	v.after = hits[len(hits)-1].Sort
	return hits, nil
}

func (v *view) source() any {
	if v.whole {
		return true
	}
	return map[string]any{"excludes": []string{"body"}}
}

// plan looks ahead for the sizes of the next documents. This costs a small
// part of reading them.
func (v *view) plan(ctx context.Context, limit int) error {
	if len(v.planned) > 0 {
		return nil
	}
	var err error
	v.planned, err = v.search(ctx, limit, map[string]any{"_source": false, "docvalue_fields": []string{bodySize}})
	return err
}

// runLength is how many of the documents may be read at once.
func runLength(planned []hit) int {
	var bytes int64
	for i, h := range planned {
		if sizes := h.Fields[bodySize]; len(sizes) > 0 {
			bytes += sizes[0]
		}
		if bytes > largestRun && i > 0 {
			return i
		}
	}
	return len(planned)
}

func (v *view) search(ctx context.Context, size int, body map[string]any) ([]hit, error) {
	body["size"] = size
	body["query"] = v.query
	body["sort"] = v.sort
	body["track_total_hits"] = false
	body["pit"] = map[string]any{"id": v.pit, "keep_alive": keepAlive}
	if len(v.after) > 0 {
		body["search_after"] = v.after
	}
	answer, err := v.store.search(ctx, "reading events", nil, body)
	if err != nil {
		return nil, err
	}
	if answer.PIT != "" {
		v.pit = answer.PIT // it may change
	}
	for _, h := range answer.Hits.Hits {
		if len(h.Sort) != len(v.sort) {
			return nil, v.store.nonsense("reading events", fmt.Sprintf("gave %d sort values for document %q, not %d", len(h.Sort), h.ID, len(v.sort)))
		}
	}
	return answer.Hits.Hits, nil
}

func (v *view) open(ctx context.Context) error {
	const doing = "opening a point in time"
	var answer struct {
		ID string `json:"id"`
	}
	request := esapi.OpenPointInTimeRequest{Index: v.store.both(), IgnoreUnavailable: yes(), KeepAlive: keepAlive}
	if err := v.store.ask(ctx, doing, request, &answer); err != nil {
		return err
	}
	if answer.ID == "" {
		return v.store.nonsense(doing, "gave it no id")
	}
	v.pit = answer.ID
	return nil
}

// close lets Elasticsearch free the point in time, also when the reader has
// gone away. Should that fail, keepAlive does it.
func (v *view) close(ctx context.Context) {
	if v.pit == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	const doing = "closing a point in time"
	if err := v.store.ask(ctx, doing, esapi.ClosePointInTimeRequest{Body: asJSON(map[string]any{"id": v.pit})}, nil); err != nil {
		v.store.logger.Debug(doing, "error", err)
	}
}
