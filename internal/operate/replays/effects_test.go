package replays

import (
	"context"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/internal/template/target"
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
