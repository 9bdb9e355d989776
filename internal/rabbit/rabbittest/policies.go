package rabbittest

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// WithPolicies runs a test on the embedded broker and on the newest RabbitMQ, with virtual hosts
// as operators have them: policies for all exchanges and queues, and, in RabbitMQ, queues
// that are quorum queues unless a client says otherwise.
func WithPolicies(t *testing.T, test func(t *testing.T, b Broker)) {
	t.Helper()
	t.Run("policies/embedded", func(t *testing.T) { test(t, Embedded(t).withPolicies(t)) })
	if noServers() {
		return
	}
	t.Run("policies/"+NewestServer(t).Version, func(t *testing.T) {
		test(t, NewestServer(t).newVHost(t, `{"default_queue_type":"quorum"}`).withPolicies(t))
	})
}

func (b Broker) withPolicies(t testing.TB) Broker {
	t.Helper()
	const (
		unrouted = "unrouted"
		ofUsers  = `^(?!amq\.).*` // as in RabbitMQ's own examples
	)
	ch := b.Channel(t)
	if err := ch.ExchangeDeclare(unrouted, "fanout", true, false, false, false, nil); err != nil {
		t.Fatalf("declare exchange: %v", err)
	}
	if _, err := ch.QueueDeclare(unrouted, true, false, false, false, nil); err != nil {
		t.Fatalf("declare queue: %v", err)
	}
	if err := ch.QueueBind(unrouted, "", unrouted, false, nil); err != nil {
		t.Fatalf("bind queue: %v", err)
	}
	b.Policy(t, ofUsers, "exchanges", `{"alternate-exchange":"`+unrouted+`"}`)
	b.Policy(t, ofUsers, "classic_queues", `{"message-ttl":3600000,"max-length":1000000}`)
	b.Policy(t, ofUsers, "quorum_queues", `{"message-ttl":3600000,"max-length":1000000,"delivery-limit":20}`)
	b.Policies = true
	return b
}

// Policy sets a policy in the broker's virtual host. ApplyTo is exchanges, queues or all, and
// definition is JSON.
func (b Broker) Policy(t testing.TB, pattern, applyTo, definition string) {
	t.Helper()
	b.Manage(t, http.MethodPut, "/api/policies/"+url.PathEscape(b.VHostName(t))+"/"+strings.ToLower(rand.Text()[:10]),
		fmt.Sprintf(`{"pattern":%q,"apply-to":%q,"definition":%s}`, pattern, applyTo, definition))
}
