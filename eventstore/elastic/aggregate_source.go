package elastic

import (
	"context"
	"strings"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/elastic/internal/sourcevalues"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas/jsonscan"
)

// countInSources is TopValues for a field without doc_values.
func (r *reader) countInSources(ctx context.Context, sel eventstore.Selection, field kql.Field, n int) (eventstore.Aggregation, error) {
	root := sourcevalues.Root(field)
	sel.Limit, sel.WithoutBody = 0, !strings.HasPrefix(root, "body.")
	p, err := r.newPITReader(ctx, sel)
	if err != nil {
		return eventstore.Aggregation{}, err
	}
	if sel.WithoutBody {
		p.only = root // a filter would write the number 1.50 of a body as 1.5
	}
	p.sort, p.inDiskOrder = p.dialect.onDisk(), true
	p.read = func(r *jsonscan.Reader, h *hit) { h.Source = sourcevalues.Read(r, root) }
	defer func() { p.close(ctx) }()
	counts := sourcevalues.New(field)
	for h, err := range p.documents(ctx) {
		if err == nil {
			err = counts.Add(h.Source)
		}
		if err != nil {
			return counts.Top(n), err
		}
	}
	return counts.Top(n), nil
}
