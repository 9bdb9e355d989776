package elastic

import (
	"context"
	"fmt"
)

const (
	// maxPlan is the most documents that one search can return
	// (index.max_result_window).
	maxPlan = 10_000

	// maxPage is the most documents in a page.
	maxPage = 2000

	// minPage is the fewest documents that are worth a request.
	minPage = 200

	// maxPageBytes limits the bodies of a page, so that a thousand messages of
	// 16 MiB in a row exhaust neither Elasticsearch's memory nor this process's. A
	// single body can be larger.
	maxPageBytes = 8 << 20

	bodySizeField = "messaging.message.body.size"
)

// choosePageSize chooses a size at which a page of the largest bodies is not too large.
// If that would be few documents, the pages are planned instead, which costs a quarter
// of reading small messages.
func (p *pitReader) choosePageSize(ctx context.Context) error {
	response, err := p.searchPIT(ctx, 1, sizesOnly(), []any{sortBy(bodySizeField, "desc", "long")})
	if err != nil || len(response.Hits) == 0 {
		return err
	}
	fit := maxPageBytes / max(1, response.Hits[0].BodySize)
	if p.planning = fit < minPage; !p.planning {
		p.pageSize = int(min(fit, maxPage))
	}
	return nil
}

// sizesOnly loads no source.
func sizesOnly() map[string]any {
	return map[string]any{"_source": false, "stored_fields": "_none_", "docvalue_fields": []string{bodySizeField}}
}

// planPages reads the body sizes of the next documents without their sources. It costs a
// fraction of loading them, less for more documents at once.
func (p *pitReader) planPages(ctx context.Context) error {
	if len(p.planned) > 0 {
		return nil
	}
	var err error
	p.planned, err = p.search(ctx, p.planSize, sizesOnly())
	p.planComplete = len(p.planned) < p.planSize
	return err
}

// readPlanned reads a page of the planned documents.
func (p *pitReader) readPlanned(ctx context.Context) ([]hit, error) {
	length := plannedPageLength(p.planned)
	if length == 0 {
		return nil, nil
	}
	hits, err := p.search(ctx, length, map[string]any{"_source": p.source()})
	if err != nil {
		return nil, err
	}
	if len(hits) != length {
		return nil, p.store.invalidResponse("reading events", fmt.Sprintf("gave %d documents instead of %d", len(hits), length))
	}
	p.planned = p.planned[length:]
	return hits, nil
}

// plannedPageLength is the number of documents that fit in a page.
func plannedPageLength(planned []hit) int {
	var size int64
	for i, h := range planned[:min(len(planned), maxPage)] {
		size += h.BodySize
		if size > maxPageBytes && i > 0 {
			return i
		}
	}
	return min(len(planned), maxPage)
}
