package storetest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas"
)

// corpus makes random events with few distinct values in nearly every field, so that a
// random query with the same values matches some of them.
type corpus struct{ *rand.Rand }

func newCorpus(seed uint64) corpus { return corpus{rand.New(rand.NewPCG(seed, 20260504))} }

func pick[T any](c corpus, list ...T) T { return list[c.IntN(len(list))] }

func (c corpus) action() schemas.Action {
	return pick(c, schemas.Published, schemas.Handled, schemas.RetryScheduled, schemas.Poisoned)
}

func (c corpus) tenant() string {
	return pick(c, "acme", "acme-2", "um brella", "and", "a*c", "ünï", "null", `C:\dir`, "a?c", "[a]", `say "no"`, "100%", "true", "7")
}

func (c corpus) word() string {
	return pick(c, "cannot", "connect", "timed", "out", "order", "violin", "broken", "acme", "straße", "9",
		"3.14", "don't", "example.com", "a:b", "_x_1", "東京タワー", "ひらがな", "한국어", "😀", "👍🏽", "ภาษาไทย", "A.B.C", "1,000.5", "naïve", "İstanbul", "👨‍👩‍👧", "لا", "לא")
}

func (c corpus) queue() string { return pick(c, "orders", "orders.eu", "mail", "") }

func (c corpus) words() string {
	words := make([]string, 1+c.IntN(4))
	for i := range words {
		words[i] = c.word()
	}
	return strings.Join(words, pick(c, " ", ", ", ": ", " - "))
}

func (c corpus) total() float64 { return pick(c, 7.0, 9.5, 10, -1, 1e6) }

func (c corpus) time() time.Time {
	return time.Date(2026, 1, 1+c.IntN(60), c.IntN(24), c.IntN(60), c.IntN(60), c.IntN(1000)*1e6, time.UTC)
}

// format adds two of the headers as labels.
func (c corpus) format() schemas.DocumentFormat {
	return schemas.DocumentFormat{Labels: []string{"tenant"}, NumericLabels: []string{"total"}}
}

// fields are the fields that queries of the corpus can use.
func (c corpus) fields() (kql.Fields, error) {
	fields, err := eventstore.Fields()
	fields.Labels = ComparisonLabels()
	return fields, err
}

func (c corpus) documents(source string, n int) []schemas.Document {
	docs := make([]schemas.Document, n)
	for i := range docs {
		docs[i] = c.format().Document(c.event(source, i+1))
	}
	return docs
}

func (c corpus) event(source string, n int) schemas.Event {
	event := subject{source: source}.event(n)
	event.Action, event.Time = c.action(), c.time()
	event.Envelope = schemas.Envelope{
		Exchange: pick(c, "shop", "", "mail"), RoutingKey: pick(c, "order.created", "order.paid", "#"),
		Properties: schemas.Properties{MessageID: fmt.Sprint("m-", c.IntN(20)), Type: pick(c, "", "order"), AppID: c.tenant()},
		Headers:    c.headers(), Body: c.body(),
	}
	event.BodySize = len(event.Envelope.Body)
	event.Fingerprint = event.Envelope.Fingerprint()
	event.Queue, event.Attempt = c.queue(), c.IntN(4)
	event.Duration = time.Duration(c.IntN(12))
	event.Stream = c.stream()
	event.Subjects = pick(c, nil, nil, []string{"subject_1"}, []string{"subject_1", "subject_2"})
	if c.IntN(2) == 0 {
		event.Failure = schemas.Failure{Message: c.words(), Type: pick(c, "Timeout", "http.Status"), Class: pick(c, "", "default"), Stack: c.words()}
		event.FirstFailed = c.time()
		event.Attempts = []schemas.FailedAttempt{{Time: c.time(), Class: "default"}, {Time: c.time(), Class: pick(c, "ordering", "7")}}
	}
	return event
}

func (c corpus) stream() schemas.MessageStream {
	switch c.IntN(3) {
	case 0:
		return schemas.MessageStream{}
	case 1:
		return schemas.MessageStream{ID: c.tenant()}
	}
	return schemas.MessageStream{ID: pick(c, "order-7", "order-8", c.tenant()), Version: pick(c, int64(0), 1, 7, 1<<53), HasVersion: true}
}

func (c corpus) headers() amqp.Table {
	headers := amqp.Table{}
	if c.IntN(3) > 0 {
		headers["tenant"] = c.tenant()
	}
	if c.IntN(3) > 0 {
		headers["total"] = c.total()
	}
	if c.IntN(3) > 0 {
		headers["deep"] = amqp.Table{"er": c.tenant(), "a.b": c.word()}
	}
	if c.IntN(3) > 0 {
		headers["list"] = []any{"twice", "twice", c.word(), int32(c.IntN(10)), c.IntN(2) == 0}
	}
	return headers
}

func (c corpus) body() []byte {
	switch c.IntN(5) {
	case 0:
		return []byte(c.words())
	case 1:
		return []byte{0xff, 0}
	case 2:
		return nil
	case 3:
		return fmt.Appendf(nil, `[{"order":%d},[{"note":%q},%q],null]`, c.IntN(10), c.words(), c.word())
	}
	return fmt.Appendf(nil, `{"order":%d,"price":%s,"note":%q,"lines":[{"sku":%q},{"sku":%q}],"none":null,"%s":true}`,
		c.IntN(10), pick(c, "2.50", "1e3", "7"), c.words(), c.word(), c.tenant(), c.word())
}
