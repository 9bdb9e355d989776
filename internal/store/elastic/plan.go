package elastic

import (
	"context"
	"fmt"
)

const (
	// longestPlan is the most that one search may give
	// (index.max_result_window).
	longestPlan = 10_000

	// longestPage is how many documents are read at once.
	longestPage = 2000

	// shortestPage is how many are worth a request.
	shortestPage = 200

	// largestRun is how many bytes of bodies are read at once, so that a
	// thousand messages of 16 MiB in a row cannot exhaust the memory of
	// Elasticsearch or ours. One body may be larger.
	largestRun = 8 << 20

	bodySize = "messaging.message.body.size"
)

// measure chooses pages that are not too large whatever is in them. Where that would
// be few documents, since one body is large, they are planned. To plan takes a
// quarter of the work of reading small messages.
func (v *view) measure(ctx context.Context) error {
	answer, err := v.ask(ctx, 1, sizesOnly(), []any{by(bodySize, "desc", "long")})
	if err != nil || len(answer.Hits) == 0 {
		return err
	}
	fit := largestRun / max(1, answer.Hits[0].BodySize)
	if v.plans = fit < shortestPage; !v.plans {
		v.page = int(min(fit, longestPage))
	}
	return nil
}

// sizesOnly loads no document.
func sizesOnly() map[string]any {
	return map[string]any{"_source": false, "stored_fields": "_none_", "docvalue_fields": []string{bodySize}}
}

// plan looks ahead for the sizes of the next documents, without loading any: a
// fraction of the work of loading them, and less the more are asked for at once.
func (v *view) plan(ctx context.Context) error {
	if len(v.planned) > 0 {
		return nil
	}
	var err error
	v.planned, err = v.search(ctx, v.ahead, sizesOnly())
	v.last = len(v.planned) < v.ahead
	return err
}

// run reads as many of the planned documents as may be read at once.
func (v *view) run(ctx context.Context) ([]hit, error) {
	length := runLength(v.planned)
	if length == 0 {
		return nil, nil
	}
	hits, err := v.search(ctx, length, map[string]any{"_source": true})
	if err != nil {
		return nil, err
	}
	if len(hits) != length {
		return nil, v.store.nonsense("reading events", fmt.Sprintf("gave %d documents where it had %d", len(hits), length))
	}
	v.planned = v.planned[length:]
	return hits, nil
}

// runLength is how many of the documents may be read at once.
func runLength(planned []hit) int {
	var size int64
	for i, h := range planned[:min(len(planned), longestPage)] {
		size += h.BodySize
		if size > largestRun && i > 0 {
			return i
		}
	}
	return min(len(planned), longestPage)
}
