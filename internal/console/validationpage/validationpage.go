// Package validationpage has the page for browsers that checks stored messages with the schema of
// a route.
package validationpage

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/operate/routes"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/render/wording"
)

// pages are the pages, which call operations.
type pages struct{ api operation.Via }

// Register adds the page to a frame that has its template.
func Register(f *frame.Frame, api operation.Via) {
	f.Handle("GET /messages/validate", pages{api}.show)
}

// Bounds of a page. The command checks all messages.
const (
	maxMessages = 2000
	maxFailures = 100 // that are shown
	timeout     = time.Minute
)

// View is the page, with a result if a route was chosen.
type View struct {
	Filter   frame.Filter
	Queue    string            // of the route
	Queues   []string          // of routes with a schema
	Known    bool              // these are all
	Summary  *messages.Summary // nil: nothing was checked
	Failures []messages.InvalidMessage
	Problem  *problem.Problem
}

// Command returns the command that checks the same messages with another schema.
func (v View) Command() string {
	return "watership validate " + wording.Quoted(cmp.Or(v.Filter.Query, "*")) + " --schema FILE"
}

// show shows the form, and which messages do not fit.
func (p pages) show(r *http.Request) (frame.Response, error) {
	zone, _ := frame.ZoneOf(r)
	v := View{Filter: frame.ReadFilter(r.URL.Query(), zone, "24h"), Queue: strings.TrimSpace(r.URL.Query().Get("queue"))}
	found, err := routes.ListRoutes.Call(r.Context(), p.api, routes.RoutesInput{})
	v.Known = err == nil // else a queue can be typed
	for _, route := range found.Body.Routes {
		if route.Schema {
			v.Queues = append(v.Queues, route.Queue)
		}
	}
	made := frame.Page{Title: "Check messages", Section: "/messages", Template: "messages_validate.html", Styles: []string{"failures.css"}}
	if v.Queue != "" {
		if err := p.check(r, &v); err != nil {
			v.Problem = frame.ProblemOf(err)
			made.Status = v.Problem.Status
		}
	}
	made.Data = v
	return made, nil
}

func (p pages) check(r *http.Request, v *View) error {
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	stream, err := messages.ValidateEvents.Call(ctx, p.api, messages.ValidateInput{QueryFilter: v.Filter.API(), Queue: v.Queue, Limit: maxMessages})
	if err != nil {
		return err
	}
	lines, err := frame.ReadStream(r.WithContext(ctx), stream)
	if err != nil {
		return err
	}
	for decoder := json.NewDecoder(bytes.NewReader(lines)); decoder.More(); {
		var line messages.Validation
		if err := decoder.Decode(&line); err != nil {
			return fmt.Errorf("reading the checks: %w", err)
		}
		if line.Failure != nil && len(v.Failures) < maxFailures {
			v.Failures = append(v.Failures, *line.Failure)
		}
		if line.Summary != nil {
			v.Summary = line.Summary
		}
	}
	return nil
}
