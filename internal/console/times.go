package console

import (
	"context"
	"net/http"
	"time"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/operation"
)

// timesPage is the data of the page of times of work.
type timesPage struct {
	Filter frame.Filter
	Wait   string
	Times  *frame.Part[[]queueTimes]
}

// queueTimes has the times of a queue as rows, with links to the slowest messages.
type queueTimes struct {
	Queue    string
	Attempts int64
	Link     string // to the messages
	Rows     []timeRow
}

type timeRow struct {
	Name               string
	Known              int64
	P50, P95, P99, Max time.Duration
}

// showTimes shows how long messages wait in queues and take to be handled.
func (c systemPages) showTimes(r *http.Request) (frame.Response, error) {
	zone, _ := frame.ZoneOf(r)
	f := frame.ReadFilter(r.URL.Query(), zone, "24h")
	p := frame.NewParts(r)
	data := timesPage{Filter: f, Wait: frame.WaitLink(r)}
	data.Times = frame.Ask(p, func(ctx context.Context) ([]queueTimes, error) { return timesOfQueues(ctx, c.api, f) })
	p.Wait()
	made := systemPage("Times of work", "/routes", "times.html", data)
	if data.Times.Problem != nil {
		made.Status = data.Times.Problem.Status
	}
	return made, nil
}

func timesOfQueues(ctx context.Context, api operation.Via, f frame.Filter) ([]queueTimes, error) {
	found, err := messages.ListTimes.Call(ctx, api, messages.TimesInput{QueryFilter: f.API()})
	var all []queueTimes
	for _, q := range found.Body.Queues {
		all = append(all, queueTimes{q.Queue, q.Attempts, f.With("/messages", kql.FieldIs("queue", q.Queue).String()), []timeRow{
			newTimeRow("in queue", q.InQueue), newTimeRow("handler", q.Handler), newTimeRow("publish to handled", q.Total),
		}})
	}
	return all, err
}

func newTimeRow(name string, p messages.Percentiles) timeRow {
	return timeRow{name, p.Count, secondsOf(p.P50), secondsOf(p.P95), secondsOf(p.P99), secondsOf(p.Max)}
}

func secondsOf(seconds float64) time.Duration {
	return time.Duration(seconds * float64(time.Second))
}
