package elastic

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/elastic/go-elasticsearch/v8/esapi"
)

// keepAlive is how long Elasticsearch keeps a point in time that nobody asks;
// each page begins it anew. It keeps deleted segments on disk.
const keepAlive = "5m"

// search reads the next documents, in the order of the view.
func (v *view) search(ctx context.Context, size int, body map[string]any) ([]hit, error) {
	if len(v.after) > 0 {
		body["search_after"] = v.after
	}
	answer, err := v.ask(ctx, size, body, v.sort)
	if err != nil {
		return nil, err
	}
	for _, h := range answer.Hits {
		if len(h.Sort) != len(v.sort) {
			return nil, v.store.nonsense("reading events", fmt.Sprintf("gave %d sort values for document %q, not %d", len(h.Sort), h.ID, len(v.sort)))
		}
	}
	return answer.Hits, nil
}

// ask searches in the point in time.
func (v *view) ask(ctx context.Context, size int, body map[string]any, sort []any) (searchAnswer, error) {
	body["size"] = size
	body["query"] = v.query
	body["sort"] = sort
	body["track_total_hits"] = false
	body["pit"] = map[string]any{"id": v.pit, "keep_alive": keepAlive}
	if v.text.Cap() > 4*largestRun {
		v.text = bytes.Buffer{} // do not keep what one large message needed
	}
	answer, err := v.store.searchWith(ctx, "reading events", nil, body, &v.text, eventSource)
	if err == nil && answer.PIT != "" {
		v.pit = answer.PIT // it may change
	}
	return answer, err
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
