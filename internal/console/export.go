package console

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/watershipmq/watership/internal/api"
	"github.com/watershipmq/watership/internal/columns"
	"github.com/watershipmq/watership/internal/sse"
)

// exportNDJSON downloads what the API exports.
func (c *Console) exportNDJSON(r *http.Request) (response, error) {
	zone, _ := zoneOf(r)
	asked := readFilter(r.URL.Query(), zone, messagesSince).api()
	if asked.Get("query") == "" {
		asked.Set("query", "*")
	}
	return exported(asked), nil
}

// exported are the parameters of an export of the API, which the response passes on.
type exported url.Values

func (e exported) write(c *Console, w http.ResponseWriter, r *http.Request) {
	to := &url.URL{Path: api.Prefix + "/events/export", RawQuery: url.Values(e).Encode()}
	request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, to.String(), http.NoBody)
	if err != nil {
		errorPage(err).write(c, w, r)
		return
	}
	passed := &attachment{ResponseWriter: w, name: downloadName(".ndjson")}
	c.client.api.ServeHTTP(passed, request)
	if passed.refused != nil {
		errorPage(passed.refused.read(nil)).write(c, w, r)
	}
}

// attachment makes a download of a response. It keeps a problem for a page.
type attachment struct {
	http.ResponseWriter
	name    string
	refused *answer
}

// WriteHeader implements http.ResponseWriter.
func (a *attachment) WriteHeader(status int) {
	if status >= http.StatusBadRequest {
		a.refused = &answer{status: status}
		return
	}
	a.Header().Set("Content-Disposition", `attachment; filename="`+a.name+`"`)
	a.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (a *attachment) Write(content []byte) (int, error) {
	if a.refused != nil {
		return a.refused.Write(content)
	}
	return a.ResponseWriter.Write(content)
}

// Unwrap gives http.ResponseController the connection.
func (a *attachment) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func downloadName(suffix string) string {
	return "messages-" + time.Now().UTC().Format("20060102-150405") + suffix
}

// csvExport is a download of the columns of a search, page by page: it holds no more than
// one page of events.
type csvExport struct {
	asked url.Values
	names []string // of the fields
	first api.EventPage
}

func (c *Console) exportCSV(r *http.Request) (response, error) {
	zone, _ := zoneOf(r)
	m := messages{Filter: readFilter(r.URL.Query(), zone, messagesSince), Fields: r.URL.Query().Get("fields")}
	var err error
	if m.Known, err = c.knownFields(r.Context()); err != nil {
		return nil, err
	}
	if m.Columns, err = columns.Find(m.Known.Fields, m.names()); err != nil {
		return nil, fieldProblem(r.Context(), err)
	}
	export := csvExport{asked: m.Filter.api()}
	for _, column := range m.Columns {
		export.names = append(export.names, column.Name)
	}
	if slices.ContainsFunc(m.Columns, columns.Column.OfBody) {
		export.asked.Set("body", "true")
	}
	export.asked.Set("limit", "1000")
	export.first, err = export.page(r.Context(), c, "")
	return export, err
}

func (e csvExport) page(ctx context.Context, c *Console, cursor string) (found api.EventPage, err error) {
	e.asked.Set("cursor", cursor)
	err = c.client.get(ctx, "/events", e.asked, &found)
	return found, err
}

func (e csvExport) write(c *Console, w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="`+downloadName(".csv")+`"`)
	if err := e.copyTo(c, sse.NewStream(w, time.Minute), r); err != nil {
		panic(http.ErrAbortHandler) // a download that is cut off does not look complete
	}
}

func (e csvExport) copyTo(c *Console, stream sse.Stream, r *http.Request) error {
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
		page, err = e.page(r.Context(), c, page.Cursor)
	}
	return err
}
