package elastic

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/elastic/internal/querydsl"
)

// pitReader reads the documents of a selection, page by page, from a point in time.
type pitReader struct {
	store        *reader
	dialect      dialect
	query        map[string]any
	sort         []any
	withBody     bool
	read         sourceReader
	only         string            // the only field to read; "" for whole documents
	pageSize     int               // documents in a page
	planSize     int               // documents in a plan
	planned      []hit             // the next documents, with only their sizes
	planning     bool              // plans the pages, since bodies can be large
	adaptive     bool              // chooses between planning and a fixed page size
	pit          string            // the point in time; "" before the first page
	searchAfter  []json.RawMessage // sort values of the last document
	planComplete bool              // no documents follow the planned ones
	ended        bool
	inDiskOrder  bool         // which a new point in time does not keep
	buffer       bytes.Buffer // of the response, reused for the next
}

// newPITReader sorts by time and sequence; documents of other programs have no sequence
// and come last. It reads one document more than the limit, to know that the last one
// within the limit has no further ties.
func (r *reader) newPITReader(ctx context.Context, sel eventstore.Selection) (*pitReader, error) {
	dialect, err := r.dialect(ctx, "reading events")
	if err != nil {
		return nil, err
	}
	p := &pitReader{store: r, dialect: dialect, query: r.filter(sel), withBody: !sel.WithoutBody, read: readEvent, pageSize: maxPage, planSize: maxPlan}
	p.adaptive = sel.Limit == 0 || sel.Limit > maxPage
	p.planning = p.withBody
	if sel.Limit > 0 {
		p.pageSize, p.planSize = min(sel.Limit+1, maxPage), min(sel.Limit+1, maxPlan)
	}
	switch sel.Order {
	case eventstore.BySequence:
		p.sort = []any{sortBy("event.sequence", "asc", "long")}
	case eventstore.SlowestInQueue, eventstore.SlowestInHandler, eventstore.SlowestInTotal:
		field := sel.Order.Time()
		p.query = querydsl.Bool("filter", []map[string]any{p.query, {"exists": map[string]any{"field": field}}})
		p.sort = []any{sortBy(field, "desc", "long"), sortBy("event.sequence", "desc", "long")}
	default:
		p.sort = []any{sortBy("@timestamp", "desc", "date"), sortBy("event.sequence", "desc", "long")}
	}
	p.sort = append(p.sort, dialect.tieBreak())
	return p, nil
}

func sortBy(field, order, kind string) map[string]any {
	return map[string]any{field: map[string]any{"order": order, "missing": "_last", "unmapped_type": kind}}
}

// next reads the next documents. It replaces an expired point in time by a new one,
// after the last document, so that a reader can take hours. The new one includes later
// documents.
func (p *pitReader) next(ctx context.Context) ([]hit, error) {
	hits, err := p.readPage(ctx)
	if !errorContains(err, "search_context_missing_exception") || p.inDiskOrder {
		return hits, err
	}
	p.pit, p.planned, p.planComplete = "", nil, false
	if len(p.searchAfter) > 0 {
		// _shard_doc had a meaning in the old one only. From -1 on, all ties are
		// read again; ties drops the duplicates.
		p.searchAfter[len(p.searchAfter)-1] = json.RawMessage("-1")
	}
	return p.readPage(ctx)
}

func (p *pitReader) readPage(ctx context.Context) ([]hit, error) {
	if p.pit == "" {
		if err := p.open(ctx); err != nil {
			return nil, err
		}
		if p.withBody && p.adaptive {
			if err := p.choosePageSize(ctx); err != nil {
				return nil, err
			}
		}
	}
	if !p.planning {
		hits, err := p.search(ctx, p.pageSize, map[string]any{"_source": p.source()})
		p.ended = len(hits) < p.pageSize
		return p.setSearchAfter(hits), err
	}
	if err := p.planPages(ctx); err != nil {
		return nil, err
	}
	hits, err := p.readPlanned(ctx)
	p.ended = p.planComplete && len(p.planned) == 0
	return p.setSearchAfter(hits), err
}

func (p *pitReader) source() any {
	switch {
	case p.only != "":
		return []string{p.only}
	case p.withBody:
		return true
	}
	return map[string]any{"excludes": []string{"body"}}
}

func (p *pitReader) setSearchAfter(hits []hit) []hit {
	if len(hits) > 0 {
		p.searchAfter = hits[len(hits)-1].Sort
	}
	return hits
}
