package elastic

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"time"
)

// keepAlive is the time that a point in time outlives each page. It keeps deleted
// segments on disk.
const keepAlive = "5m"

// search reads the next documents, in the order of the reader.
func (p *pitReader) search(ctx context.Context, size int, body map[string]any) ([]hit, error) {
	if len(p.searchAfter) > 0 {
		body["search_after"] = p.searchAfter
	}
	response, err := p.searchPIT(ctx, size, body, p.sort)
	if err != nil {
		return nil, err
	}
	for _, h := range response.Hits {
		if len(h.Sort) != len(p.sort) {
			return nil, p.store.invalidResponse("reading events", fmt.Sprintf("gave %d sort values for document %q, not %d", len(h.Sort), h.ID, len(p.sort)))
		}
	}
	return response.Hits, nil
}

// searchPIT searches in the point in time.
func (p *pitReader) searchPIT(ctx context.Context, size int, body map[string]any, sort []any) (searchResponse, error) {
	body["size"] = size
	body["query"] = p.query
	body["sort"] = sort
	body["track_total_hits"] = false
	body["pit"] = map[string]any{"id": p.pit, "keep_alive": keepAlive}
	if p.buffer.Cap() > 4*maxPageBytes {
		p.buffer = bytes.Buffer{} // frees the memory of one large message
	}
	response, err := p.store.searchWith(ctx, "reading events", nil, body, &p.buffer, p.read)
	if err == nil && response.PIT != "" {
		p.pit = response.PIT // it can change
	}
	return response, err
}

func (p *pitReader) open(ctx context.Context) error {
	const operation = "opening a point in time"
	var response struct {
		ID    string `json:"id"`
		PITID string `json:"pit_id"` // of OpenSearch
	}
	if err := p.store.requestJSON(ctx, operation, p.dialect.openPIT(p.store.dataStreams()), &response); err != nil {
		return err
	}
	if p.pit = cmp.Or(response.ID, response.PITID); p.pit == "" {
		return p.store.invalidResponse(operation, "gave it no id")
	}
	return nil
}

// close frees the point in time, also after ctx is done. If that fails, it expires
// after keepAlive.
func (p *pitReader) close(ctx context.Context) {
	if p.pit == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	const operation = "closing a point in time"
	if err := p.store.requestJSON(ctx, operation, p.dialect.closePIT(p.pit), nil); err != nil {
		p.store.logger.Debug(operation, "error", err)
	}
}
