package rabbittest

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// WithPolicies runs a test on the embedded broker and on the RabbitMQ that Each has for it, each with a
// virtual host as operators have them: policies for all exchanges and queues, and queues that are quorum
// queues unless a client says otherwise.
func WithPolicies(t *testing.T, test func(t *testing.T, b Broker)) {
	t.Helper()
	t.Run("policies", func(t *testing.T) {
		t.Run("embedded", func(t *testing.T) { test(t, Embedded(t).withPolicies(t)) })
		if noServers() {
			return
		}
		oldestOrNewest(t, func(t *testing.T, b Broker) {
			test(t, b.newVHost(t, `{"default_queue_type":"quorum"}`).withPolicies(t))
		})
	})
}

// unrouted are the exchange and the queue of the messages that no other queue gets, in a virtual host
// with policies.
const unrouted = "unrouted"

func (b Broker) withPolicies(t testing.TB) Broker {
	t.Helper()
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
	for applyTo, definition := range b.policies() {
		b.Policy(t, `^(?!amq\.).*`, applyTo, definition) // the pattern of RabbitMQ's own examples
	}
	b.Policies = true
	return b
}

// policies returns the definitions of a virtual host's policies by the value of apply-to. Each kind of broker
// has queues that do something else once they are full. RabbitMQ 3 mirrors classic queues, and a policy
// that says so is for no quorum queue.
func (b Broker) policies() map[string]string {
	const limits = `"message-ttl":3600000,"max-length":1000000,"overflow":`
	switch {
	case b.Own:
		return map[string]string{
			"exchanges":      `{"alternate-exchange":"` + unrouted + `"}`,
			"classic_queues": `{` + limits + `"reject-publish-dlx"}`,
			"quorum_queues":  `{` + limits + `"drop-head","delivery-limit":20}`,
		}
	case strings.HasPrefix(b.Version, "3."):
		return map[string]string{
			"all":    `{"alternate-exchange":"` + unrouted + `","ha-mode":"all","ha-sync-mode":"automatic",` + limits + `"reject-publish-dlx"}`,
			"queues": `{` + limits + `"drop-head","delivery-limit":20}`,
		}
	default:
		return map[string]string{
			"exchanges":      `{"alternate-exchange":"` + unrouted + `"}`,
			"classic_queues": `{` + limits + `"drop-head"}`,
			"quorum_queues":  `{` + limits + `"reject-publish","delivery-limit":20}`,
		}
	}
}

// Policy sets a policy in the broker's virtual host. ApplyTo is exchanges, queues or all, and
// definition is JSON.
func (b Broker) Policy(t testing.TB, pattern, applyTo, definition string) {
	t.Helper()
	b.Manage(t, http.MethodPut, "/api/policies/"+url.PathEscape(b.VHostName(t))+"/"+strings.ToLower(rand.Text()[:10]),
		fmt.Sprintf(`{"pattern":%q,"apply-to":%q,"definition":%s}`, pattern, applyTo, definition))
}

// LimitQueue limits the messages of a queue by a policy that wins against the policies of all queues, until lift is
// called or the test ends. The policy sets the overflow, unless it is "".
func (b Broker) LimitQueue(t testing.TB, queue string, limit int, overflow string) (lift func()) {
	t.Helper()
	path := "/api/policies/" + url.PathEscape(b.VHostName(t)) + "/" + url.PathEscape("limit-"+queue)
	definition := fmt.Sprintf(`"max-length":%d`, limit)
	if overflow != "" {
		definition += fmt.Sprintf(`,"overflow":%q`, overflow)
	}
	b.Manage(t, http.MethodPut, path, fmt.Sprintf(`{"pattern":%q,"apply-to":"queues","priority":9,"definition":{%s}}`, "^"+regexp.QuoteMeta(queue)+"$", definition))
	lift = sync.OnceFunc(func() { b.Manage(t, http.MethodDelete, path, "") })
	t.Cleanup(lift)
	return lift
}
