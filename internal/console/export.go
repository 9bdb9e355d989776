package console

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/sse"
	"github.com/watershipmq/watership/internal/render/columns"
)

// exportNDJSON downloads the export of the API.
func (c searchPages) exportNDJSON(r *http.Request) (frame.Response, error) {
	zone, _ := frame.ZoneOf(r)
	filter := frame.ReadFilter(r.URL.Query(), zone, usualPeriod).API()
	filter.Query = cmp.Or(filter.Query, "*")
	stream, err := messages.ExportEvents.Call(r.Context(), c.api, messages.ExportInput{QueryFilter: filter})
	return frame.Download{Stream: stream, Name: downloadName(".ndjson")}, err
}

func downloadName(suffix string) string {
	return "messages-" + time.Now().UTC().Format("20060102-150405") + suffix
}

// csvExport is a download of the columns of a search, page by page: it holds no more than
// one page of events.
type csvExport struct {
	api   operation.Via
	asked messages.SearchInput
	names []string // of the fields
	first messages.EventPage
}

func (c searchPages) exportCSV(r *http.Request) (frame.Response, error) {
	zone, _ := frame.ZoneOf(r)
	m := messageList{Events: true, Filter: frame.ReadFilter(r.URL.Query(), zone, usualPeriod), Fields: strings.Join(r.URL.Query()["fields"], ",")}
	var err error
	if m.Known, err = c.knownFields(r.Context()); err != nil {
		return nil, err
	}
	if m.Columns, err = columns.Find(m.Known.Fields, m.names()); err != nil {
		return nil, fieldProblem(r.Context(), err)
	}
	export := csvExport{api: c.api, asked: messages.SearchInput{QueryFilter: m.Filter.API(), Limit: 1000}}
	for _, column := range m.Columns {
		export.names = append(export.names, column.Name)
	}
	export.asked.WithBody = slices.ContainsFunc(m.Columns, columns.Column.OfBody)
	export.first, err = export.page(r.Context(), "")
	return export, err
}

func (e csvExport) page(ctx context.Context, cursor string) (messages.EventPage, error) {
	e.asked.Cursor = cursor
	found, err := messages.SearchEvents.Call(ctx, e.api, e.asked)
	return found.Body, err
}

// Write implements frame.Response.
func (e csvExport) Write(_ *frame.Frame, w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="`+downloadName(".csv")+`"`)
	if err := e.copyTo(sse.NewStream(w, time.Minute), r); err != nil {
		panic(http.ErrAbortHandler) // a download that is cut off does not look complete
	}
}

func (e csvExport) copyTo(stream sse.Stream, r *http.Request) error {
	to := columns.NewCSV(stream, nil)
	err := to.Write(e.names)
	for page := e.first; err == nil; {
		for _, document := range page.Events {
			values, err := columns.Parse(document)
			if err != nil {
				return err
			}
			if err := to.WriteDocument(values, e.names); err != nil {
				return err
			}
		}
		if to.Flush(); page.Cursor == "" || to.Error() != nil {
			return to.Error()
		}
		page, err = e.page(r.Context(), page.Cursor)
	}
	return err
}
