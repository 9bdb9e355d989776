package main

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/server/servertest"
)

// Questions that users ask, many of them in the issues of other projects, and the section that answers each.
var asked = [][2]string{
	{"move messages from a dead letter queue back to the original queue", "docs/coming-from.html#dead-letter-exchange-and-ttls-by-hand"},
	{"Error queues: what's the best way to get MassTransit's _error messages retried?", "docs/coming-from.html#masstransit"},
	{"PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out", "docs/troubleshooting.html#frequent-errors"},
	{"a poison message kills the worker again and again after each restart", "docs/routes.html#handlers-that-end-the-process"},
	{"the rejected message disappears and is not retried", "docs/troubleshooting.html#a-message"},
	{"why was my message handled twice?", "docs/troubleshooting.html#a-message"},
	{"keep the order of messages when one is retried", "docs/troubleshooting.html#a-route"},
	{"the disk of Elasticsearch is full", "docs/troubleshooting.html#the-record"},
	{"what happens if Elasticsearch is down?", "docs/faq.html#what-happens-if-elasticsearch-is-down"},
	{"does it slow down my publishers?", "docs/faq.html#does-it-slow-down-publishers"},
	{"how do I erase personal data (GDPR)?", "docs/privacy.html#erase-one-message"},
	{"how to run replicas in Kubernetes", "docs/kubernetes.html#several-deployments"},
	{"0 messages to send", "docs/troubleshooting.html#a-replay"},
	{"retry at night or in business hours only", "docs/faq.html#can-retries-wait-for-the-night-or-stop-on-sundays"},
	{"does a message arrive exactly once?", "docs/faq.html#does-a-message-arrive-exactly-once"},
	{"Celery task is lost when the worker is killed although acks_late is set", "docs/coming-from.html#celery"},
	{"Retry middleware blocks the messages behind it", "docs/faq.html#does-a-message-that-fails-block-the-messages-behind-it"},
	{"exponential backoff between retries", "docs/faq.html#how-do-i-limit-the-number-of-retries-and-how-do-delays-grow"},
	{"how can a consumer see how many times the message was retried?", "docs/faq.html#how-can-a-consumer-see-how-many-times-a-message-was-retried"},
	{"get notified when messages arrive in the dead letter queue", "docs/faq.html#how-do-i-get-notified-when-messages-fail-or-arrive-in-a-dead-letter-queue"},
	{"view messages in a dead letter queue without consuming them", "docs/faq.html#how-do-i-view-the-messages-of-a-dead-letter-queue-without-consuming-them"},
	{"quorum queue drops my message after 20 deliveries", "docs/troubleshooting.html#a-message"},
	{"PRECONDITION_FAILED - inequivalent arg 'x-dead-letter-exchange' for queue", "docs/troubleshooting.html#frequent-errors"},
	{"edit the body of a failed message and send it again", "docs/replays.html#failures"},
	{"rate limit the requests to a slow API", "docs/faq.html#how-do-i-limit-the-rate-of-a-service-such-as-a-slow-api"},
	{"does it work with OpenSearch?", "docs/faq.html#does-it-work-with-sqlite-instead-of-elasticsearch-or-with-opensearch"},
	{"how long are messages kept?", "docs/faq.html#how-long-are-messages-kept"},
	{"Retry with delay in RabbitMQ without the delayed message plugin", "docs/faq.html#do-i-need-the-delayed-message-plugin-to-retry-with-a-delay"},
	{"message is redelivered in an endless loop", "docs/troubleshooting.html#a-message"},
	{"unacked messages grow and the consumer is stuck", "docs/troubleshooting.html#a-route"},
	{"how do I test my consumer without RabbitMQ", "docs/faq.html#how-do-i-test-a-consumer-without-rabbitmq"},
	{"how to sign in with single sign-on", "docs/people.html#sign-in-with-openid-connect"},
	{"kubern", "docs/production.html#kubernetes"}, // while somebody types
}

// The first hit of the search answers the question.
func TestSearch(t *testing.T) {
	t.Parallel()
	node, err := exec.LookPath("node")
	if err != nil {
		servertest.Missing(t, "Node is not installed")
	}
	files := built(t)
	questions, err := json.Marshal(asked)
	if err != nil {
		t.Fatal(err)
	}
	search := exec.CommandContext(t.Context(), node, "-")
	search.Stdin = strings.NewReader(files["search.js"] + files["search-index.js"] +
		"\nconsole.log(JSON.stringify(" + string(questions) + ".map(([question]) => find(searched, question).map((passage) => [passage.url, excerpt(passage, question)]))))")
	out, err := search.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var hits [][][2]string
	if err := json.Unmarshal(out, &hits); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for n, question := range asked {
		if len(hits[n]) == 0 || hits[n][0][0] != question[1] || len(hits[n][0][1]) < 40 {
			t.Errorf("%s: the first hits are %q, want %s", question[0], hits[n][:min(3, len(hits[n]))], question[1])
		}
	}
}
