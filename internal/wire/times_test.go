package wire

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/schemas"
)

// Times of work are told where the moments between which they are were recorded, and never guessed.
func TestTimesOfWork(t *testing.T) {
	published := time.Date(2026, 5, 4, 3, 0, 0, 7_000_000, time.UTC)
	started := published.Add(2 * time.Second)
	inMillis := amqp.Table{header.BrokerTime: published.UnixMilli()}
	const took = 500 * time.Millisecond
	for name, test := range map[string]struct {
		action       schemas.Action
		state        schemas.State
		headers      amqp.Table
		stamp        time.Time
		queue, total time.Duration
	}{
		"a time of the broker":           {action: schemas.Handled, state: schemas.State{Started: started}, headers: inMillis, queue: 2 * time.Second, total: 2500 * time.Millisecond},
		"a timestamp in milliseconds":    {action: schemas.Handled, state: schemas.State{Started: started}, stamp: time.Unix(published.UnixMilli(), 0), queue: 2 * time.Second, total: 2500 * time.Millisecond},
		"a header of the publisher":      {action: schemas.Handled, state: schemas.State{Started: started}, headers: amqp.Table{"sent": "2026-05-04T03:00:00.007Z"}, queue: 2 * time.Second, total: 2500 * time.Millisecond},
		"a timestamp in seconds":         {action: schemas.Handled, state: schemas.State{Started: started}, stamp: time.Unix(published.Unix(), 0)},
		"no time of the publish":         {action: schemas.Handled, state: schemas.State{Started: started}},
		"no time of the attempt":         {action: schemas.Handled, headers: inMillis},
		"an attempt that failed":         {action: schemas.RetryScheduled, state: schemas.State{Started: started}, headers: inMillis, queue: 2 * time.Second},
		"the last attempt":               {action: schemas.Poisoned, state: schemas.State{Started: started}, headers: inMillis, queue: 2 * time.Second},
		"a message that was returned":    {action: schemas.Handled, state: schemas.State{Started: started, Sent: started.Add(-time.Millisecond)}, headers: inMillis, queue: time.Millisecond, total: 2500 * time.Millisecond},
		"returned, without a publish":    {action: schemas.Handled, state: schemas.State{Started: started, Sent: started.Add(-time.Millisecond)}, queue: time.Millisecond},
		"a replay":                       {action: schemas.Handled, state: schemas.State{Started: started, Sent: started.Add(-time.Millisecond), Replay: "job"}, headers: inMillis, queue: time.Millisecond},
		"a replay to an exchange":        {action: schemas.Handled, state: schemas.State{Started: started, Replay: "job"}, headers: inMillis},
		"a clock that is a little ahead": {action: schemas.Handled, state: schemas.State{Started: published.Add(-3 * time.Millisecond)}, headers: inMillis, queue: 1, total: took - 3*time.Millisecond},
		"a clock that is ahead":          {action: schemas.Handled, state: schemas.State{Started: published.Add(-time.Minute)}, headers: inMillis},
		"eight days":                     {action: schemas.Handled, state: schemas.State{Started: published.Add(8 * 24 * time.Hour)}, headers: inMillis},
	} {
		t.Run(name, func(t *testing.T) {
			e := schemas.Envelope{Exchange: "shop", RoutingKey: "k", Headers: test.headers, Properties: schemas.Properties{Timestamp: test.stamp}}
			test.state.Queue, test.state.EventID, test.state.Attempt, test.state.Duration = "orders", "01M", 1, took
			test.state.Fingerprint, test.state.Time = e.Fingerprint(), started.Add(took)
			dec := Decoder{Source: "s", TimeHeaders: []string{"sent"}}
			p := DefaultFrameMax.Wrap(e, test.state)
			got, err := dec.Lifecycle(amqp.Delivery{Exchange: dec.Topology.Events(), RoutingKey: string(test.action), Headers: p.Headers, Timestamp: p.Timestamp}, started, 1)
			if err != nil {
				t.Fatal(err)
			}
			stored, err := schemas.ParseDocument(schemas.DocumentFormat{}.Append(nil, got))
			if err != nil {
				t.Fatal(err)
			}
			if stored.QueueTime != test.queue || stored.TotalTime != test.total || stored.Duration != took {
				t.Errorf("in the queue for %s, handled after %s, attempt of %s; want %s, %s", stored.QueueTime, stored.TotalTime, stored.Duration, test.queue, test.total)
			}
		})
	}
}
