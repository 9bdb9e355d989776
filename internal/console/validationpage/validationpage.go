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
	"strconv"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/operate/routes"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/render/wording"
)

// pages are the pages, which ask the API.
type pages struct{ client frame.Client }

// Register adds the page to a frame that has its template.
func Register(f *frame.Frame, c frame.Client) {
	f.Handle("GET /messages/validate", pages{c}.show)
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
	var found routes.Routes // without it, a queue can be typed
	if p.client.Get(r.Context(), "/routes", nil, &found) == nil {
		v.Known = true
		for _, route := range found.Routes {
			if route.Schema {
				v.Queues = append(v.Queues, route.Queue)
			}
		}
	}
	made := frame.Page{Title: "Check messages", Section: "/messages", Template: "messages_validate.html", Styles: []string{"failures.css"}}
	if v.Queue != "" {
		if err := p.check(r.Context(), &v); err != nil {
			v.Problem = frame.ProblemOf(err)
			made.Status = v.Problem.Status
		}
	}
	made.Data = v
	return made, nil
}

func (p pages) check(ctx context.Context, v *View) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	values := v.Filter.API()
	values.Set("queue", v.Queue)
	values.Set("limit", strconv.Itoa(maxMessages))
	var lines []byte
	if err := p.client.Get(ctx, "/events/validate", values, &lines); err != nil {
		return err
	}
	for decoder := json.NewDecoder(bytes.NewReader(lines)); decoder.More(); {
		var line messages.Validation
		if err := decoder.Decode(&line); err != nil {
			return fmt.Errorf("reading a response of the API: %w", err)
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
