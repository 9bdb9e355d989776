package shadow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/elastic"
	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/internal/handler/outgoing"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/replayer/shadow"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// record is a store with the events of a shop.
type record struct {
	store interface {
		shadow.Store
		Create(ctx context.Context, docs []schemas.Document) ([]eventstore.Result, error)
		Refresh(ctx context.Context) error
	}
	source   string
	sequence int64
}

// inEachStore runs a test on the embedded store, and on Elasticsearch if there is one.
func inEachStore(t *testing.T, test func(t *testing.T, r *record)) {
	t.Run("embedded", func(t *testing.T) {
		store, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "store.db")})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		if err := store.Install(t.Context()); err != nil {
			t.Fatal(err)
		}
		test(t, newRecord(t, &record{store: store}))
	})
	t.Run("elasticsearch", func(t *testing.T) {
		url := os.Getenv("WATERSHIP_TEST_STORE_URL")
		if url == "" {
			t.Skip("WATERSHIP_TEST_STORE_URL is not set")
		}
		store, err := elastic.Open(elastic.Config{URLs: []string{url}, Stream: "test-shadow"})
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Install(t.Context()); err != nil {
			t.Fatal(err)
		}
		test(t, newRecord(t, &record{store: store}))
	})
}

func newRecord(t *testing.T, r *record) *record {
	r.sequence = time.Now().UnixMicro()
	r.source = fmt.Sprint("shadow", r.sequence)
	return r
}

// query selects the test's own events.
func (r *record) query(text string) string {
	return fmt.Sprintf("watership.source: %q and (%s)", r.source, text)
}

func (r *record) order(n int) schemas.Envelope {
	return schemas.Envelope{
		Exchange: r.source, RoutingKey: "order.created", Body: fmt.Appendf(nil, `{"order":%d}`, n), Headers: amqp.Table{"tenant": "acme"},
		Properties: schemas.Properties{ContentType: "application/json", MessageID: fmt.Sprintf("%s-%d", r.source, n), Type: "order", DeliveryMode: 2},
	}
}

func (r *record) add(t *testing.T, action schemas.Action, queue string, e schemas.Envelope, change ...func(*schemas.Event)) schemas.Event {
	t.Helper()
	event := r.event(action, queue, e)
	for _, f := range change {
		f(&event)
	}
	r.keep(t, event)
	return event
}

func (r *record) event(action schemas.Action, queue string, e schemas.Envelope) schemas.Event {
	r.sequence++
	event := schemas.Event{
		Action: action, TimeSource: wire.TimeOfEvent, Sequence: r.sequence, Ingested: time.Now(), Source: r.source, VHost: "/", Envelope: e, BodySize: len(e.Body),
	}
	event.Version, event.Fingerprint, event.EventID, event.Time = header.Version, e.Fingerprint(), fmt.Sprintf("%s:%d", r.source, r.sequence), time.UnixMicro(r.sequence)
	if action != schemas.Published {
		event.Queue, event.Attempt, event.Message = queue, 1, "instance of "+event.EventID
		event.BodyIn, event.Envelope.Body = schemas.BodyInPublished, nil
	}
	return event
}

// keep stores events.
func (r *record) keep(t *testing.T, events ...schemas.Event) {
	t.Helper()
	var documents []schemas.Document
	for _, event := range events {
		documents = append(documents, schemas.DocumentFormat{}.Document(event))
	}
	results, err := r.store.Create(t.Context(), documents)
	for _, result := range results {
		if err == nil && result.Status != eventstore.Created {
			err = fmt.Errorf("%+v", result)
		}
	}
	if err == nil {
		err = r.store.Refresh(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func failedWith(kind, text string) func(*schemas.Event) {
	return func(e *schemas.Event) { e.Failure = schemas.Failure{Type: kind, Message: text} }
}

// handled adds a message that a queue has handled, with the messages that it has published.
func (r *record) handled(t *testing.T, n int, queue string, out ...schemas.Envelope) schemas.Envelope {
	t.Helper()
	e := r.order(n)
	r.add(t, schemas.Published, "", e)
	r.add(t, schemas.Handled, queue, e)
	r.published(t, e, queue, out...)
	return e
}

// handledMany records messages that a queue has handled, numbered from 0.
func (r *record) handledMany(t *testing.T, count int, queue string) {
	t.Helper()
	var events []schemas.Event
	for n := range count {
		e := r.order(n)
		events = append(events, r.event(schemas.Published, "", e), r.event(schemas.Handled, queue, e))
	}
	r.keep(t, events...)
}

func (r *record) published(t *testing.T, parent schemas.Envelope, queue string, out ...schemas.Envelope) {
	t.Helper()
	for i, child := range out {
		if child.Properties.MessageID == "" {
			child.Properties.MessageID = outgoing.ID(parent.Fingerprint(), queue, i, "")
		}
		headers := amqp.Table{"causation-id": parent.Properties.MessageID}
		for name, value := range child.Headers {
			headers[name] = value
		}
		child.Headers = headers
		r.add(t, schemas.Published, "", child)
	}
}

func (r *record) mail(text string) schemas.Envelope {
	return schemas.Envelope{
		Exchange: r.source + "-mails", RoutingKey: "mail", Body: []byte(text), Headers: amqp.Table{"to": "ann"}, Properties: schemas.Properties{Type: "mail"},
	}
}

// candidate is a handler that answers by order.
type candidate struct {
	mu     sync.Mutex // guards calls
	calls  []string
	answer func(order int, m shadow.Message) (shadow.Result, error)
}

func (c *candidate) handle(ctx context.Context, m shadow.Message) (shadow.Result, error) {
	var body struct{ Order int }
	if err := json.Unmarshal(m.Envelope.Body, &body); err != nil {
		return shadow.Result{}, retry.Permanent(err)
	}
	attempt := retry.AttemptFrom(ctx)
	if e, is := schemas.FromContext(ctx); !is || !shadow.IsShadow(ctx) || attempt.Queue != m.Queue || attempt.Fingerprint != m.Fingerprint || e.RoutingKey != m.Envelope.RoutingKey {
		return shadow.Result{}, errors.New("the context lacks the message")
	}
	c.mu.Lock()
	c.calls = append(c.calls, fmt.Sprint(m.Queue, " ", body.Order))
	c.mu.Unlock()
	m.Envelope.Headers["tenant"] = "changed" // which nobody must see
	return c.answer(body.Order, m)
}

func run(t *testing.T, cfg shadow.Config) shadow.Report {
	t.Helper()
	report, err := shadow.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// wantGroups compares the groups of a report, each as "count queue kind type detail".
func wantGroups(t *testing.T, report shadow.Report, want ...string) {
	t.Helper()
	var got []string
	for _, g := range report.Groups {
		got = append(got, fmt.Sprint(g.Count, " ", g.Queue, " ", g.Kind, " ", g.Type, " ", g.Detail))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The outcomes of the candidate are compared with the last one that each queue has reported.
func TestOutcomes(t *testing.T) {
	inEachStore(t, func(t *testing.T, r *record) {
		for n := range 6 {
			e := r.order(n)
			r.add(t, schemas.Published, "", e)
			switch n {
			case 0, 1:
				r.add(t, schemas.RetryScheduled, "orders", e, failedWith("timeout", "too slow"))
				r.add(t, schemas.Handled, "orders", e)
			case 2, 3, 4:
				r.add(t, schemas.Poisoned, "orders", e, failedWith("price", "no price of order 17"))
			}
		}
		c := &candidate{answer: func(n int, _ shadow.Message) (shadow.Result, error) {
			switch n {
			case 1:
				return shadow.Result{}, retry.Permanent(fmt.Errorf("order %d has no stock", n))
			case 3:
				return shadow.Result{}, errors.New("no price of order 3") // another type
			case 4:
				return shadow.Result{}, &typed{"price", "no price of order 99"}
			}
			return shadow.Result{}, nil
		}}
		report := run(t, shadow.Config{Store: r.store, Query: r.query("*"), Handler: c.handle})
		if report.Messages != 6 || report.Compared != 5 || report.Same != 2 || report.Different() != 3 || report.LeftOut[shadow.NoOutcome] != 1 {
			t.Errorf("%+v", report)
		}
		wantGroups(t, report,
			"1 orders fails order *errors.errorString: order # has no stock", "1 orders recovers order price: no price of order #", "1 orders fails_differently order *errors.errorString: no price of order #")
		if len(c.calls) != 5 {
			t.Errorf("called for %v", c.calls)
		}
	})
}

type typed struct{ kind, text string }

func (e *typed) Error() string     { return e.text }
func (e *typed) ErrorType() string { return e.kind }

// Outgoing messages are compared with those that the queue has published, as JSON.
func TestOutgoing(t *testing.T) {
	inEachStore(t, func(t *testing.T, r *record) {
		for n := range 6 {
			r.handled(t, n, "orders", r.mail(fmt.Sprintf(`{"order": %d, "at": 1, "items": [{"sku": "a", "price": 1.0}]}`, n)), r.mail("plain"))
		}
		c := &candidate{answer: func(n int, _ shadow.Message) (shadow.Result, error) {
			first, second := r.mail(fmt.Sprintf(`{"items":[{"price":1,"sku":"a"}],"order":%d,"at":2}`, n)), r.mail("plain")
			other := r.mail("{}")
			other.RoutingKey = "sms"
			switch n {
			case 1:
				return shadow.Result{Outgoing: []schemas.Envelope{first}}, nil
			case 2:
				return shadow.Result{Outgoing: []schemas.Envelope{first, second, other}}, nil
			case 3:
				first.Body = []byte(`{"order":3,"items":[{"sku":"a","price":2}]}`)
			case 4:
				second.Headers = amqp.Table{"to": "bob"}
			case 5:
				return shadow.Result{Unlisted: true}, nil
			}
			return shadow.Result{Outgoing: []schemas.Envelope{first, second}}, nil
		}}
		cfg := shadow.Config{Store: r.store, Query: r.query("event.action: handled"), Handler: c.handle, Ignore: []string{".body.at"}}
		report := run(t, cfg)
		mails := r.source + "-mails"
		wantGroups(t, report, "1 orders outgoing order missing to "+mails+" mail (mail)", "1 orders outgoing order additional to "+mails+" sms (mail)",
			"1 orders outgoing order .body.items[].price of "+mails+" mail (mail)", "1 orders outgoing order .headers.to of "+mails+" mail (mail)")
		if report.Compared != 6 || report.Same != 2 || report.Unlisted != 1 {
			t.Errorf("%+v", report)
		}
		for _, g := range report.Groups {
			if g.Detail == ".body.items[].price of "+mails+" mail (mail)" && !slices.Equal(g.Examples[0].Differences, []string{".body.items[0].price: 1.0 → 2"}) {
				t.Errorf("%+v", g.Examples)
			}
		}
		cfg.Ignore = nil
		if report := run(t, cfg); report.Same != 1 {
			t.Errorf("without --ignore: %+v", report)
		}
	})
}

// Of a message at several queues, each has the messages that it has published.
func TestOutgoingOfSeveralQueues(t *testing.T) {
	inEachStore(t, func(t *testing.T, r *record) {
		e := r.handled(t, 1, "orders", r.mail("from orders"))
		r.add(t, schemas.Handled, "invoices", e)
		r.published(t, e, "invoices", r.mail("from invoices"))
		c := &candidate{answer: func(_ int, m shadow.Message) (shadow.Result, error) {
			return shadow.Result{Outgoing: []schemas.Envelope{r.mail("from " + m.Queue)}}, nil
		}}
		cfg := shadow.Config{Store: r.store, Query: r.query("*"), Handler: c.handle}
		if report := run(t, cfg); report.Compared != 2 || report.Same != 2 || report.Unlisted != 0 {
			t.Errorf("%+v", report)
		}
		own := r.mail("from nobody knows")
		own.Properties.MessageID = "own"
		r.published(t, e, "", own)
		if report := run(t, cfg); report.Same != 2 || report.Unlisted != 2 {
			t.Errorf("with an id of the handler: %+v", report)
		}
		cfg.Queues = []string{"invoices"}
		c.calls = nil
		if report := run(t, cfg); report.Compared != 1 || !slices.Equal(c.calls, []string{"invoices 1"}) {
			t.Errorf("of one queue: %+v, %v", report, c.calls)
		}
	})
}

// A sample has the same messages each time, and about as many as were asked for.
func TestSampleAndLimit(t *testing.T) {
	inEachStore(t, func(t *testing.T, r *record) {
		r.handledMany(t, 100, "orders")
		sample := func(part float64, limit int) []string {
			c := &candidate{answer: func(int, shadow.Message) (shadow.Result, error) { return shadow.Result{}, nil }}
			run(t, shadow.Config{Store: r.store, Query: r.query("event.action: published"), Handler: c.handle, Sample: part, Limit: limit, Concurrency: 1})
			return c.calls
		}
		first, second := sample(0.3, 0), sample(0.3, 0)
		if len(first) < 10 || len(first) > 55 || !slices.Equal(first, second) {
			t.Errorf("%v, then %v", first, second)
		}
		if larger := sample(0.6, 0); slices.ContainsFunc(first, func(id string) bool { return !slices.Contains(larger, id) }) {
			t.Errorf("a larger sample lacks messages of %v: %v", first, larger)
		}
		if all, some := sample(0, 0), sample(0, 7); len(all) != 100 || len(some) != 7 || sample(1, 0)[99] != all[99] {
			t.Errorf("%d of all, %d with a limit", len(all), len(some))
		}
	})
}

// An interrupted run goes on after its last checkpoint, and its report is of all messages.
func TestResume(t *testing.T) {
	inEachStore(t, func(t *testing.T, r *record) {
		r.handledMany(t, 250, "orders")
		file := filepath.Join(t.TempDir(), "state.json")
		ctx, cancel := context.WithCancel(t.Context())
		c := &candidate{}
		c.answer = func(n int, _ shadow.Message) (shadow.Result, error) {
			if n == 150 {
				cancel()
			}
			if n%50 == 0 {
				return shadow.Result{}, retry.Permanent(errors.New("round"))
			}
			return shadow.Result{}, nil
		}
		cfg := shadow.Config{Store: r.store, Query: r.query("*"), Handler: c.handle, State: file}
		report, err := shadow.Run(ctx, cfg)
		if !errors.Is(err, context.Canceled) || report.Messages != 100 {
			t.Fatalf("%v after %d messages", err, report.Messages)
		}
		c.calls = nil
		report = run(t, cfg)
		if report.Messages != 250 || report.Different() != 5 || len(c.calls) != 150 || len(report.Groups) != 1 || report.Groups[0].Count != 5 || len(report.Groups[0].Examples) != 3 {
			t.Errorf("%d messages, %d calls: %+v", report.Messages, len(c.calls), report.Groups)
		}
		c.calls = nil
		if again := run(t, cfg); len(c.calls) != 0 || again.Different() != 5 {
			t.Errorf("a finished run calls %d times: %+v", len(c.calls), again)
		}
		cfg.Sample = 0.5
		if _, err := shadow.Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "another comparison") {
			t.Errorf("%v", err)
		}
	})
}

// A candidate that is unavailable ends the run, and is no difference.
func TestUnavailable(t *testing.T) {
	inEachStore(t, func(t *testing.T, r *record) {
		r.handled(t, 1, "orders")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := &candidate{answer: func(int, shadow.Message) (shadow.Result, error) {
			cancel() // else it is called again after a pause
			return shadow.Result{}, retry.Unavailable(errors.New("no connection"))
		}}
		report, err := shadow.Run(ctx, shadow.Config{Store: r.store, Query: r.query("*"), Handler: c.handle})
		if err == nil || report.Compared != 0 || len(c.calls) != 1 {
			t.Errorf("%v: %+v", err, report)
		}
	})
}

func TestMistakes(t *testing.T) {
	for want, cfg := range map[string]shadow.Config{
		"sample": {Query: "*", Sample: 2}, "the query": {Query: "a:"}, "path": {Query: "*", Ignore: []string{"x"}}, "expected a rate": {Query: "*", Rate: -1},
	} {
		if _, err := shadow.Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// BenchmarkRun compares 1,000 messages with one outgoing message each by a handler that does
// nothing else.
func BenchmarkRun(b *testing.B) {
	const messages = 1000
	store, err := sqlite.Open(b.Context(), sqlite.Config{Path: filepath.Join(b.TempDir(), "store.db")})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	if err := store.Install(b.Context()); err != nil {
		b.Fatal(err)
	}
	r := &record{store: store, source: "bench", sequence: 1}
	var docs []schemas.Document
	for n := range messages {
		e, mail := r.order(n), r.mail(`{"a":1}`)
		mail.Headers["causation-id"], mail.Properties.MessageID = e.Properties.MessageID, outgoing.ID(e.Fingerprint(), "orders", 0, "")
		for i, event := range []schemas.Event{{Action: schemas.Published, Envelope: e}, {Action: schemas.Handled, Envelope: e}, {Action: schemas.Published, Envelope: mail}} {
			event.Version, event.Sequence, event.Time = header.Version, int64(3*n+i+1), time.Now()
			event.EventID, event.Fingerprint, event.BodySize = fmt.Sprint(event.Sequence), event.Envelope.Fingerprint(), len(event.Envelope.Body)
			if event.Action == schemas.Handled {
				event.Queue = "orders"
			}
			docs = append(docs, schemas.DocumentFormat{}.Document(event))
		}
	}
	if _, err := store.Create(b.Context(), docs); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		report, err := shadow.Run(b.Context(), shadow.Config{Store: store, Query: "event.action: handled", Handler: func(context.Context, shadow.Message) (shadow.Result, error) {
			return shadow.Result{Outgoing: []schemas.Envelope{r.mail(`{"a":1}`)}}, nil
		}})
		if err != nil || report.Same != messages || report.Unlisted > 0 {
			b.Fatalf("%+v, %v", report, err)
		}
	}
	b.ReportMetric(float64(messages*b.N)/b.Elapsed().Seconds(), "messages/s")
}
