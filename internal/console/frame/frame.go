// Package frame has the parts that all pages of the console share: templates in a layout,
// styles and scripts, the filter in a URL, formats of values, and calls of the API in the
// same process.
package frame

import (
	"crypto/rand"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/operation/code"

	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/problem"
)

// Config configures a Frame.
type Config struct {
	Files   fs.FS  // with the folders templates and static
	Version string // shown at the end of each page

	// Logger gets the errors of templates.
	Logger *slog.Logger
}

// Frame serves pages, and the files that they load.
type Frame struct {
	config    Config
	mux       *operation.Mux
	assets    assets
	templates map[string]*template.Template // each with the layout
	doneKey   []byte
	queries   []string
}

// New reads the files.
func New(cfg Config) (*Frame, error) {
	f := &Frame{config: cfg, mux: &operation.Mux{}, doneKey: []byte(rand.Text())}
	var err error
	if f.assets, err = readAssets(cfg.Files); err != nil {
		return nil, fmt.Errorf("reading the console's files: %w", err)
	}
	if f.templates, err = parseTemplates(cfg.Files); err != nil {
		return nil, fmt.Errorf("reading the console's pages: %w", err)
	}
	f.mux.HandleFunc("GET "+f.assets.prefix, f.assets.ServeHTTP)
	return f, nil
}

// ServeHTTP implements http.Handler.
func (f *Frame) ServeHTTP(w http.ResponseWriter, r *http.Request) { f.mux.ServeHTTP(w, r) }

// Response is the result of a PageFunc: a page, a redirect or a download.
type Response interface {
	Write(f *Frame, w http.ResponseWriter, r *http.Request)
}

// PageFunc makes the response to a request for a page. Its error becomes an error page.
type PageFunc func(r *http.Request) (Response, error)

// Handle serves a page.
func (f *Frame) Handle(pattern string, do PageFunc) {
	f.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		err := readForm(w, r)
		var made Response
		if err == nil {
			made, err = do(r)
		}
		if err != nil {
			made = ErrorPage(err)
		}
		made.Write(f, w, r)
	})
}

// HandleQuery serves the page of a form that changes nothing, although its method may.
func (f *Frame) HandleQuery(pattern string, do PageFunc) {
	f.queries = append(f.queries, pattern)
	f.Handle(pattern, do)
}

// Queries returns the patterns of requests with other methods than GET that viewers may send.
func (f *Frame) Queries() []string { return f.queries }

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

// Redirect sends the browser to another page after a form.
type Redirect string

// Write implements Response.
func (to Redirect) Write(_ *Frame, w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, string(to), http.StatusSeeOther)
}

// ErrorPage shows a problem instead of a page.
func ErrorPage(err error) Page {
	p := ProblemOf(err)
	return Page{Title: p.Title, Template: "error.html", Status: p.Status, Data: p}
}

// ProblemOf returns the problem that an error of an operation is.
func ProblemOf(err error) *problem.Problem {
	var p *problem.Problem
	if !errors.As(err, &p) {
		p = &problem.Problem{Code: code.Internal, Detail: err.Error()}
	}
	if p.Code == code.KeyReused {
		p = &problem.Problem{Code: p.Code, Detail: "this form was sent before, with other values", Remedy: "Open the page again: it shows what was done."}
	}
	return inWords(*p).Complete()
}

// Unknown returns the problem of an error with a remedy for readers of pages, if it is that something
// does not exist: the API names a request instead. Other errors stay as they are, and nil does.
func Unknown(err error, remedy string) error {
	if err == nil {
		return nil
	}
	p := ProblemOf(err)
	if p.Code != code.NotFound {
		return err
	}
	p.Remedy = remedy
	return p
}

// inWords replaces the text that the API has for each value which does not fit its schema by
// the first such value. A page shows no list of them.
func inWords(p problem.Problem) problem.Problem {
	if len(p.Errors) == 0 {
		return p
	}
	mistake := p.Errors[0]
	_, name, _ := strings.Cut(mistake.Location, ".")
	p.Detail, p.Errors = strings.TrimPrefix(name+": "+mistake.Message, ": "), p.Errors[1:]
	return p
}

// parseTemplates parses each page with the layout and the parts that pages share.
func parseTemplates(files fs.FS) (map[string]*template.Template, error) {
	shared, err := template.New("layout.html").Funcs(functions()).ParseFS(files, "templates/layout.html", "templates/parts/*.html")
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
