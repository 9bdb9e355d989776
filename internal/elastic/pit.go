package elastic

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// keepAlive is how long Elasticsearch keeps a point in time that nobody asks;
// each page begins it anew. It keeps deleted segments on disk.
const keepAlive = "5m"

func (v *view) search(ctx context.Context, size int, body map[string]any) ([]hit, error) {
	body["size"] = size
	body["query"] = v.query
	body["sort"] = v.sort
	body["track_total_hits"] = false
	body["pit"] = map[string]any{"id": v.pit, "keep_alive": keepAlive}
	if len(v.after) > 0 {
		body["search_after"] = v.after
	}
	if v.text.Cap() > 4*largestRun {
		v.text = bytes.Buffer{} // do not keep what one large message needed
	}
	answer, err := v.store.searchWith(ctx, "reading events", nil, body, &v.text, eventSource)
	if err != nil {
		return nil, err
	}
	if answer.PIT != "" {
		v.pit = answer.PIT // it may change
	}
	for _, h := range answer.Hits {
		if len(h.Sort) != len(v.sort) {
			return nil, v.store.nonsense("reading events", fmt.Sprintf("gave %d sort values for document %q, not %d", len(h.Sort), h.ID, len(v.sort)))
		}
	}
	return answer.Hits, nil
}

func (v *view) open(ctx context.Context) error {
	const doing = "opening a point in time"
	var answer struct {
		ID string `json:"id"`
	}
	opening := request{
		method: http.MethodPost, path: "/" + strings.Join(v.store.both(), ",") + "/_pit",
		query: options{"keep_alive": keepAlive, "ignore_unavailable": "true"},
	}
	if err := v.store.ask(ctx, doing, opening, &answer); err != nil {
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
	closing := request{method: http.MethodDelete, path: "/_pit", body: asJSON(map[string]any{"id": v.pit})}
	if err := v.store.ask(ctx, doing, closing, nil); err != nil {
		v.store.logger.Debug(doing, "error", err)
	}
}
