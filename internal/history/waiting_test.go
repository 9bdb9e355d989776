package history

import (
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas"
)

// A key has an unhandled message if one failed at the queue and was neither handled nor discarded.
func TestUnhandledMessagesOfAKey(t *testing.T) {
	for name, test := range map[string]struct {
		steps []schemas.Action // of message m
		ago   time.Duration
		key   string // that is asked for
		of    string // message that asks
		want  bool
	}{
		"nothing":              {nil, 0, "a", "n", false},
		"it waits":             {[]schemas.Action{schemas.RetryScheduled}, time.Minute, "a", "n", true},
		"itself":               {[]schemas.Action{schemas.RetryScheduled}, time.Minute, "a", "m", false},
		"another key":          {[]schemas.Action{schemas.RetryScheduled}, time.Minute, "b", "n", false},
		"it waits for long":    {[]schemas.Action{schemas.RetryScheduled}, 48 * time.Hour, "a", "n", false},
		"it was handled":       {[]schemas.Action{schemas.RetryScheduled, schemas.Handled}, time.Minute, "a", "n", false},
		"it was given up":      {[]schemas.Action{schemas.RetryScheduled, schemas.Poisoned}, 48 * time.Hour, "a", "n", true},
		"it itself was":        {[]schemas.Action{schemas.RetryScheduled, schemas.Poisoned}, time.Minute, "a", "m", false},
		"it was only recorded": {[]schemas.Action{schemas.Published}, time.Minute, "a", "n", false},
	} {
		t.Run(name, func(t *testing.T) {
			var events []schemas.Event
			for i, action := range test.steps {
				e := schemas.Event{Action: action, Sequence: int64(i + 1), Envelope: schemas.Envelope{Headers: amqp.Table{"account": "a"}}, Source: "s"}
				e.EventID, e.Fingerprint, e.Message, e.Queue = fmt.Sprint("e", i), "m", "i", "orders"
				e.Time = time.Now().Add(time.Duration(i)*time.Second - test.ago)
				events = append(events, e)
			}
			store := filledStore(t, events)
			for _, earlier := range []bool{true, false} {
				got, err := Unhandled(t.Context(), store, "orders", kql.FieldIs("headers.account", test.key), test.of, func(e schemas.Envelope, failed time.Time) bool {
					if e.Headers["account"] != "a" || failed.Sub(events[0].Time).Abs() > time.Millisecond {
						t.Errorf("asked whether a message with the headers %v, which failed at %s, is earlier", e.Headers, failed)
					}
					return earlier
				})
				if err != nil || got != (test.want && earlier) {
					t.Errorf("earlier %t: got %t, %v", earlier, got, err)
				}
			}
		})
	}
}
