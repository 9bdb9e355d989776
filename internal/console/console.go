// Package console serves Watership's pages for browsers: what happened, the messages, the
// failures, replays and routes. Each page is made of responses of the HTTP API, which the
// console asks with the identity of the page's request, so that a role allows and hides
// the same in both. Pages work without script; the scripts in static add completion, live
// numbers and keys.
package console

import (
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/watershipmq/watership/internal/problem"
)

// Config configures a Console.
type Config struct {
	// API is the handler of api.Prefix. Requests have an identity in their context.
	API http.Handler

	// Version is shown at the end of each page.
	Version string

	// Kibana is the address of Kibana, for links to the same query there; nil: no links.
	Kibana *url.URL

	// Stream is the prefix of the data streams, which Kibana's data view has as its id.
	Stream string

	// Server is the address of the HTTP server in commands to copy; nil: that of the
	// request.
	Server *url.URL

	// Logger gets the errors of templates. Nil: none.
	Logger *slog.Logger
}

// Console is the handler of the pages.
type Console struct {
	config    Config
	client    client
	mux       *http.ServeMux
	assets    assets
	templates map[string]*template.Template // each with the layout
}

// New returns the console of an API.
func New(cfg Config) (*Console, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Console{config: cfg, client: client{cfg.API}, mux: http.NewServeMux()}
	var err error
	if c.assets, err = readAssets(); err != nil {
		return nil, fmt.Errorf("reading the console's files: %w", err)
	}
	if c.templates, err = c.parseTemplates(); err != nil {
		return nil, fmt.Errorf("reading the console's pages: %w", err)
	}
	c.mux.Handle("GET "+c.assets.prefix, c.assets)
	for pattern, show := range map[string]pageFunc{
		"GET /{$}":    c.showOverview,
		"GET /routes": c.showRoutes,
		"GET /doctor": c.showDoctor,
		"GET /":       c.notFound,

		"GET /failures":             c.failures,
		"GET /failures/selected":    c.failuresSelected,
		"GET /failures/discard":     c.discardPreview,
		"POST /failures/discard":    c.discard,
		"GET /replays":              c.replays,
		"GET /replays/new":          c.planReplay,
		"POST /replays/new":         c.startReplay,
		"GET /replays/{id}":         c.replay,
		"GET /replays/{id}/cancel":  c.cancelPage,
		"POST /replays/{id}/cancel": c.cancelReplay,
		"POST /replays/{id}/resume": c.resumeReplay,

		"GET /messages":               c.messages,
		"GET /messages/export.csv":    c.exportCSV,
		"GET /messages/export.ndjson": c.exportNDJSON,

		"GET /messages/{id}":          c.message,
		"GET /messages/{id}/image":    c.messageImage,
		"GET /messages/{id}/discard":  c.messageDiscardForm,
		"POST /messages/{id}/discard": c.discardMessage,
		"GET /messages/{id}/copy":     c.messageCopyForm,
		"POST /messages/{id}/copy":    c.sendCopy,
	} {
		c.handle(pattern, show)
	}
	return c, nil
}

// ServeHTTP implements http.Handler.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.mux.ServeHTTP(w, r) }

// response is the result of a pageFunc: a page, a redirect or a download.
type response interface {
	write(c *Console, w http.ResponseWriter, r *http.Request)
}

// pageFunc makes the response to a request for a page. Its error becomes an error page.
type pageFunc func(r *http.Request) (response, error)

func (c *Console) handle(pattern string, do pageFunc) {
	c.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		err := readForm(w, r)
		var made response
		if err == nil {
			made, err = do(r)
		}
		if err != nil {
			made = errorPage(err)
		}
		made.write(c, w, r)
	})
}

// pageTimeout is longer than any operation of the API takes.
const pageTimeout = 6 * time.Minute

// readForm reads the form of a request within the server's deadline. Then it removes that
// deadline: net/http cancels the context of a request when it passes, and a plan may take
// longer.
func readForm(w http.ResponseWriter, r *http.Request) error {
	if err := r.ParseForm(); err != nil {
		return problem.BadRequest("the form cannot be read: "+err.Error(), "Open the page again.")
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // a recorder of tests has none
	_ = control.SetWriteDeadline(time.Now().Add(pageTimeout))
	return nil
}

// redirect sends the browser to another page after a form.
type redirect string

func (to redirect) write(_ *Console, w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, string(to), http.StatusSeeOther)
}

func (c *Console) notFound(*http.Request) (response, error) {
	return nil, &problem.Problem{Status: http.StatusNotFound, Detail: "the console has no such page", Remedy: "Start from the overview."}
}

// errorPage shows a problem instead of a page.
func errorPage(err error) page {
	p := problemOf(err)
	return page{Title: p.Title, Template: "error.html", Status: p.Status, Data: p}
}

// problemOf returns the problem that an error of the client is.
func problemOf(err error) *problem.Problem {
	var p *problem.Problem
	if !errors.As(err, &p) {
		p = &problem.Problem{Status: http.StatusInternalServerError, Detail: err.Error()}
	}
	return p.Complete()
}

// parseTemplates parses each page with the layout and the parts that pages share.
func (c *Console) parseTemplates() (map[string]*template.Template, error) {
	shared, err := template.New("layout.html").Funcs(c.functions()).ParseFS(files, "templates/layout.html", "templates/parts/*.html")
	if err != nil {
		return nil, err
	}
	names, err := fs.Glob(files, "templates/*.html")
	pages := map[string]*template.Template{}
	for _, path := range names {
		name := path[len("templates/"):]
		if name == "layout.html" {
			continue
		}
		page, cloneErr := shared.Clone()
		if cloneErr == nil {
			page, cloneErr = page.ParseFS(files, path)
		}
		err = errors.Join(err, cloneErr)
		pages[name] = page
	}
	return pages, err
}
