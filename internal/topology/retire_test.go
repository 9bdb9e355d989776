package topology

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/schemas"
)

// retiring returns the retirement of a prefix that has a queue of due messages. The management API lists
// it without messages and consumers, as it was some seconds ago, and the broker's first answers about it
// are those of a quorum queue with a silent leader.
func retiring(t *testing.T, b rabbittest.Broker) Retirement {
	t.Helper()
	former := schemas.Topology{Prefix: rabbittest.Name(t)}
	management := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `[{"name":%q,"type":"quorum"}]`, former.Delays().Due())
	}))
	t.Cleanup(management.Close)
	lists, err := rabbit.NewManagement(management.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Channel(t).QueueDeclare(former.Delays().Due(), true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		t.Fatal(err)
	}
	b.DeleteQueue(t, former.Delays().Due())
	silent := 0
	conn := connection(t, rabbittest.Broker{Address: rabbittest.Address{URL: b.SilentQueues(t, func(string) bool {
		silent++
		return silent <= 3
	})}})
	return Retirement{Migration: Migration{Conn: conn, Management: lists, VHost: "/"}, Former: former}
}

func TestSilentQueueOfARetiredPrefixIsNotEmpty(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		r := retiring(t, b)
		publishKey(t, b, "", r.Former.Delays().Due())
		rabbittest.Eventually(t, "the message", func() bool { return b.Len(t, r.Former.Delays().Due()) == 1 })
		if left, err := r.Left(t.Context()); err != nil || left[r.Former.Delays().Due()] != 1 {
			t.Errorf("%v is left: %v", left, err)
		}
	})
}

func TestSilentQueueOfARetiredPrefixIsInUse(t *testing.T) {
	t.Parallel() // most of it is waiting
	b := rabbittest.Embedded(t)
	r := retiring(t, b)
	if _, err := b.Channel(t).Consume(r.Former.Delays().Due(), "", false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := r.Check(t.Context()); err == nil || !strings.Contains(err.Error(), r.Former.Delays().Due()+" has a consumer") {
		t.Errorf("got %v", err)
	}
}
