package messages

import (
	"context"
	"net/http"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
)

// ListTimes is the operation of this file.
var ListTimes = operation.Declare[TimesInput, TimesOutput](operation.Operation{
	Method: http.MethodGet, Path: "/times", ID: "listTimes", Tag: "events", Role: access.Viewer,
	Summary: "List the times of work of queues",
	Text: "Percentiles of the times of attempts, those that failed included, for the queues with most of them. " +
		"Percentiles are right to within a hundredth. Attempts whose time is not known are not part of it.",
})

// TimesInput is the input of ListTimes.
type TimesInput struct {
	eventfilter.QueryFilter
	Limit int `query:"limit" minimum:"1" maximum:"1000" default:"50" doc:"Maximum number of queues"`
}

// TimesOutput is the output of ListTimes.
type TimesOutput struct{ Body Times }

// Times are the times of work of queues.
type Times struct {
	Queues []QueueTimes `json:"queues" nullable:"false" doc:"Those with most attempts first"`
	Others int64        `json:"others" doc:"Attempts at queues that are not listed"`
}

// QueueTimes are the times of work of a queue.
type QueueTimes struct {
	Queue    string      `json:"queue"`
	Attempts int64       `json:"attempts" doc:"Attempts in the period, those whose times are not known included"`
	Handler  Percentiles `json:"handler" doc:"Time of an attempt (event.duration)"`
	InQueue  Percentiles `json:"in_queue" doc:"Time in the queue before an attempt (watership.queue_time)"`
	Total    Percentiles `json:"total" doc:"Time from the publish until the message was handled (watership.total_time)"`
}

// Percentiles are the percentiles of a time, in seconds.
type Percentiles struct {
	Count int64   `json:"count" doc:"Events whose time is known; the percentiles are theirs"`
	P50   float64 `json:"p50_seconds"`
	P95   float64 `json:"p95_seconds"`
	P99   float64 `json:"p99_seconds"`
	Max   float64 `json:"max_seconds"`
}

func (o operations) listTimes(ctx context.Context, in *TimesInput) (*TimesOutput, error) {
	sel, err := in.Selection(ctx, o.System)
	if err != nil {
		return nil, err
	}
	store, err := o.System.Store(ctx)
	if err != nil {
		return nil, err
	}
	sel.Query = kql.And{history.Attempts(), sel.Query}
	found, err := store.Percentiles(ctx, sel, "watership.queue", in.Limit, history.HandlerTime, history.QueueTime, history.TotalTime)
	if err == nil && len(found.Values) == 0 {
		err = store.Check(ctx) // may be the reason
	}
	times := Times{Queues: make([]QueueTimes, len(found.Values)), Others: found.Others}
	for i, v := range found.Values {
		times.Queues[i] = QueueTimes{v.Text, v.Count, newPercentiles(v.Fields[0]), newPercentiles(v.Fields[1]), newPercentiles(v.Fields[2])}
	}
	return &TimesOutput{times}, err
}

func newPercentiles(p eventstore.Percentiles) Percentiles {
	seconds := func(nanoseconds int64) float64 { return time.Duration(nanoseconds).Seconds() }
	return Percentiles{p.Count, seconds(p.P50), seconds(p.P95), seconds(p.P99), seconds(p.Max)}
}
