package replays

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/internal/template/target"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/schemas"
)

// A plan needs no effects: if they cannot be read, it says so.
func TestEffectsThatCannotBeRead(t *testing.T) {
	o := operations{System: systemtest.New(t)}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if effects := o.expectEffects(ctx, []replayer.Route{{Queue: "orders", Messages: 1}}); effects == nil || !effects.Unread {
		t.Errorf("%+v", effects)
	}
}

// Receivers are shown by scheme and host, as the rest may be secret; a message may choose one.
func TestReceivers(t *testing.T) {
	all := receivers{}
	for queue, text := range map[string]string{"fixed": "https://ann:secret@shop/orders", "path": "http://shop/{headers.tenant}", "chosen": "https://{headers.host}/hooks"} {
		parsed, err := target.ParseURL(text)
		if err != nil {
			t.Fatal(err)
		}
		host, err := target.ParseHost("*.example.com")
		if err != nil {
			t.Fatal(err)
		}
		all[queue] = receiver{parsed, []target.Host{host}}
	}
	tea := schemas.Envelope{Headers: amqp.Table{"host": "tea.example.com"}}
	for _, want := range []struct {
		queue, receiver string
		message         schemas.Envelope
	}{
		{"fixed", "https://shop", schemas.Envelope{}},
		{"path", "http://shop", schemas.Envelope{}},
		{"other", "", tea},
		{"chosen", "https://tea.example.com", tea},
		{"chosen", chosenByMessage, schemas.Envelope{}},
	} {
		if got := all.of(want.queue, want.message); got != want.receiver {
			t.Errorf("%s: %q, want %q", want.queue, got, want.receiver)
		}
	}
}

// handledOrders are a System with a route to a service, and a message that the route has handled: its service was
// asked, and a mail published, which another consumer has handled.
func handledOrders(t *testing.T) *replaying {
	t.Helper()
	r := newReplaying(t, `WATERSHIP_ROUTES=[{queue: orders, handler: {http: {url: "https://ann:secret@shop.example/orders"}}}]`)
	published, failed := poisoned("", "m-1"), poisoned("orders", "m-2")
	published.Action, published.EventID, published.Failure = schemas.Published, "published-m-1", schemas.Failure{}
	handled := poisoned("orders", "m-1")
	handled.Action, handled.EventID, handled.Failure = schemas.Handled, "handled-m-1", schemas.Failure{}
	mail := published
	mail.EventID, mail.Envelope.RoutingKey, mail.Envelope.Properties.MessageID = "published-mail", "mail", "mail-1"
	mail.Envelope.Headers = amqp.Table{pipeline.HeaderCausation: "m-1"}
	mail.Fingerprint = mail.Envelope.Fingerprint()
	sent := mail
	sent.Action, sent.EventID, sent.Queue = schemas.Handled, "handled-mail", "mail"
	systemtest.Record(t, r.sys, published, handled, mail, sent, failed)
	return r
}

func ordersAgain() Replay {
	replay := toFailedQueue()
	replay.UncheckedRoutes = true
	return replay
}

func TestAPlanSaysWhatSuchMessagesCausedBefore(t *testing.T) {
	effects := handledOrders(t).plan(t, ordersAgain()).Effects
	if effects == nil || effects.Unread || effects.Sampled != 1 {
		t.Fatalf("%+v", effects)
	}
	want := Effects{
		Sampled:    1,
		Published:  []Effect{{Exchange: "shop", RoutingKey: "mail", Sampled: 1, Expected: 1}},
		Queues:     []Effect{{Queue: "mail", Sampled: 1, Expected: 1}},
		Requests:   []Effect{{Queue: "orders", Receiver: "https://shop.example", Sampled: 1, Expected: 1}},
		NotHandled: []Sending{}, Silent: []string{"mail"},
	}
	if diff := cmp.Diff(want, *effects); diff != "" {
		t.Error(diff)
	}
}

func TestAPlanSaysWhichMessagesWereNeverHandled(t *testing.T) {
	r := newReplaying(t)
	systemtest.Record(t, r.sys, poisoned("orders", "m-1"), poisoned("orders", "m-2"))
	effects := r.plan(t, ordersAgain()).Effects
	if effects == nil {
		t.Fatal("none")
	}
	if diff := cmp.Diff([]Sending{{Exchange: "shop", RoutingKey: "order.created", Queue: "orders", Messages: 2}}, effects.NotHandled); diff != "" {
		t.Error(diff)
	}
}

// A caller with limits does not learn what messages cause in other queues.
func TestEffectsWithinTheLimitsOfTheCaller(t *testing.T) {
	plan, err := PlanReplay.Call(operator(t, "ann", "orders"), handledOrders(t), PlanInput{ordersAgain()})
	must(t, err)
	if effects := plan.Body.Effects; effects == nil || len(effects.Requests) != 1 || len(effects.Published) != 0 || len(effects.Queues) != 0 {
		t.Errorf("%+v", effects)
	}
}

func TestReceiversOfRoutes(t *testing.T) {
	all, err := newReceivers(systemtest.New(t, `WATERSHIP_ROUTES=[{queue: orders, handler: {http: {url: "https://{headers.host}/orders", hosts: ["*.example.com"]}}}]`))
	must(t, err)
	for host, want := range map[string]string{"tea.example.com": "https://tea.example.com", "evil.example.org": chosenByMessage} {
		if got := all.of("orders", schemas.Envelope{Headers: amqp.Table{"host": host}}); got != want {
			t.Errorf("%s: %q, want %q", host, got, want)
		}
	}
}
