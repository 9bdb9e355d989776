package console

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/operate/deliveries"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/problem"
)

// receiversPage is the data of the list of receivers.
type receiversPage struct {
	Filter    frame.Filter
	Wait      string
	Receivers *frame.Part[[]receiverRow]
}

// receiverPage is the data of the page of a receiver.
type receiverPage struct {
	Wait, Since string
	Name        string // of the receiver
	Queue       string
	Receiver    *frame.Part[receiverRow]

	Key     string           // of a request that holds or releases it
	Done    string           // held or released; "": nothing was done
	Refused *problem.Problem // nil: nothing was
}

// receiverRow is a receiver with the links to its pages.
type receiverRow struct {
	deliveries.ReceiverState
	Time    time.Duration // the 95th percentile
	Link    string        // to the page of the receiver
	Events  string        // to its events
	Failed  string        // to its groups of failures
	Recover string        // to the plan of a replay of messages that it has missed
}

// Success is the share of requests that succeeded. All of them is said only if none has failed.
func (r receiverRow) Success() string {
	switch {
	case r.Requests == 0:
		return "none sent"
	case r.Succeeded < r.Requests:
		return fmt.Sprintf("%.1f%%", min(99.9, 100*float64(r.Succeeded)/float64(r.Requests)))
	}
	return "100%"
}

func pathOfReceiver(queue, name string) string {
	return "/receiver?" + url.Values{"queue": {queue}, "receiver": {name}}.Encode()
}

func newReceiverRow(r deliveries.ReceiverState) receiverRow {
	of := kql.And{kql.FieldIs("queue", r.Queue), kql.FieldIs("receiver", r.Name)}.String()
	missed := kql.And{kql.FieldIs("action", "poisoned"), kql.FieldIs("queue", r.Queue), kql.FieldIs("receiver", r.Name)}.String()
	return receiverRow{
		ReceiverState: r, Time: secondsOf(r.P95), Link: pathOfReceiver(r.Queue, r.Name),
		Events: "/messages?" + url.Values{"q": {of}, "view": {eventsView}, "since": {frame.AllTime}}.Encode(), Failed: "/failures?" + url.Values{"q": {of}, "since": {frame.AllTime}}.Encode(),
		Recover: "/replays/new?" + url.Values{"q": {missed}, "target": {"failed_queue"}, "since": {frame.AllTime}}.Encode(),
	}
}

// showReceivers lists the receivers of routes, those with most failures first.
func (c receiverPages) showReceivers(r *http.Request) (frame.Response, error) {
	zone, _ := frame.ZoneOf(r)
	f := frame.ReadFilter(r.URL.Query(), zone, "24h")
	p := frame.NewParts(r)
	data := receiversPage{Filter: f, Wait: frame.WaitLink(r)}
	data.Receivers = frame.Ask(p, func(ctx context.Context) ([]receiverRow, error) { return rowsOfReceivers(ctx, c.api, f) })
	p.Wait()
	made := systemPage("Receivers", "/routes", "receivers.html", data)
	if data.Receivers.Problem != nil {
		made.Status = data.Receivers.Problem.Status
	}
	return made, nil
}

func rowsOfReceivers(ctx context.Context, api operation.Via, f frame.Filter) ([]receiverRow, error) {
	found, err := deliveries.ListReceivers.Call(ctx, api, deliveries.ListInput{QueryFilter: f.API(), Limit: 200})
	rows := make([]receiverRow, len(found.Body.Receivers))
	for i, r := range found.Body.Receivers {
		rows[i] = newReceiverRow(r)
	}
	return rows, err
}

// showReceiver shows how the requests to one receiver fared.
func (c receiverPages) showReceiver(r *http.Request) (frame.Response, error) {
	asked := r.URL.Query()
	done, _ := c.DoneBefore(r)
	return c.receiverPage(r, receiverPage{Name: asked.Get("receiver"), Queue: asked.Get("queue"), Done: done.Get("action")}), nil
}

func (c receiverPages) receiverPage(r *http.Request, data receiverPage) frame.Page {
	p := frame.NewParts(r)
	data.Wait, data.Since, data.Key = frame.WaitLink(r), "24h", rand.Text()
	data.Receiver = frame.Ask(p, func(ctx context.Context) (receiverRow, error) {
		found, err := deliveries.GetReceiver.Call(ctx, c.api, deliveries.GetInput{Queue: data.Queue, Name: data.Name, Since: data.Since})
		return newReceiverRow(found.Body), err
	})
	p.Wait()
	made := systemPage("Receiver "+data.Name, "/routes", "receiver.html", data)
	switch {
	case data.Refused != nil:
		made.Status = data.Refused.Status
	case data.Receiver.Problem != nil:
		made.Status = data.Receiver.Problem.Status
	}
	return made
}

func (c receiverPages) holdReceiver(r *http.Request) (frame.Response, error) {
	return c.changeHold(r, "held", deliveries.HoldReceiver.Call)
}

func (c receiverPages) releaseReceiver(r *http.Request) (frame.Response, error) {
	return c.changeHold(r, "released", deliveries.ReleaseReceiver.Call)
}

// changeHold holds or releases the receiver of a form. A refusal is shown with the form.
func (c receiverPages) changeHold(r *http.Request, done string, change func(context.Context, operation.Via, deliveries.HoldInput) (deliveries.HoldOutput, error)) (frame.Response, error) {
	in := deliveries.HoldInput{Queue: r.PostForm.Get("queue"), IdempotencyKey: frame.KeyOf(r)}
	in.Body.Receiver, in.Body.Reason = r.PostForm.Get("receiver"), reasonOf(r)
	if _, err := change(r.Context(), c.api, in); err != nil {
		return c.receiverPage(r, receiverPage{Name: in.Body.Receiver, Queue: in.Queue, Refused: frame.ProblemOf(err)}), nil
	}
	return c.Done(pathOfReceiver(in.Queue, in.Body.Receiver), url.Values{"action": {done}}), nil
}
