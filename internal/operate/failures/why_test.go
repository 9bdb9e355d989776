package failures

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/operate/failures/compare"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/schemas"
)

// drawn is a message with about 60 fields: an origin, properties, headers, and a nested body with lists.
type drawn struct {
	at            time.Time
	exchange, key string
	appID         string
	headers       amqp.Table
	body          map[string]any
}

const (
	corpusHours = 12
	deployHour  = 5 // of a new version of all publishers
)

func corpusBegin() time.Time { return time.Date(2026, 5, 4, 0, 0, 0, 0, time.UTC) }

func draw(random *rand.Rand) drawn {
	pick := func(name string, n int) string { return fmt.Sprint(name, "-", random.IntN(n)) }
	d := drawn{
		at:       corpusBegin().Add(time.Duration(random.Int64N(int64(corpusHours * time.Hour)))),
		exchange: pick("exchange", 20), key: pick("order.step", 30), appID: pick("shop", 25),
		headers: amqp.Table{"tenant": pick("tenant", 40), "id": strconv.FormatUint(random.Uint64(), 36), "empty": nil, "version": pick("v2.4", 20)},
		body: map[string]any{
			"id": random.Uint64(), "amount": float64(random.IntN(1_000_000)) / 100, "none": nil,
			"customer": map[string]any{"country": pick("country", 30), "name": pick("name", 5000), "vip": random.IntN(30) == 0},
			"tags":     []string{pick("tag", 30), pick("tag", 30)},
			"lines":    []any{map[string]any{"sku": pick("sku", 200), "n": random.IntN(5)}, map[string]any{"sku": pick("sku", 200), "n": random.IntN(5)}},
			"text":     strings.Repeat("long ", 100),
		},
	}
	d.headers["region"] = "of " + d.headers["tenant"].(string)[:8] // follows the tenant
	d.headers["release"] = "old"
	if random.IntN(25) == 0 {
		d.headers["coupon"] = strconv.FormatUint(random.Uint64(), 36)
	}
	if random.IntN(25) != 0 {
		d.headers["signature"] = strconv.FormatUint(random.Uint64(), 36)
	}
	for f := range 20 {
		d.headers[fmt.Sprint("h", f)] = pick("v", 2+f*2)
		d.body[fmt.Sprint("f", f)] = pick("v", 2+f*2)
	}
	return d
}

// event returns an event of the message, which has the body or not.
func (d drawn) event(action schemas.Action, n int, withBody bool) schemas.Event {
	if !d.at.Before(corpusBegin().Add(deployHour * time.Hour)) {
		d.headers["release"] = "new"
	}
	body, _ := json.Marshal(d.body)
	e := schemas.Event{Action: action, Envelope: schemas.Envelope{
		Exchange: d.exchange, RoutingKey: d.key, Headers: d.headers, Body: body,
		Properties: schemas.Properties{MessageID: fmt.Sprint("m-", n), AppID: d.appID, ContentType: "application/json", Type: "order"},
	}}
	e.EventID, e.Time, e.BodySize = fmt.Sprint(action, "-", n), d.at, len(body)
	e.Fingerprint = e.Envelope.Fingerprint()
	if action != schemas.Published {
		e.Queue = "orders"
	}
	if !withBody {
		e.Envelope.Body, e.BodyIn = nil, schemas.BodyInPublished
	}
	return e
}

// planted is a cause: what most messages of a group have, and few others.
type planted struct {
	field string
	plant func(d *drawn, random *rand.Rand)
}

func plants() []planted {
	header := func(name, value string) planted {
		return planted{"headers." + name, func(d *drawn, _ *rand.Rand) { d.headers[name] = value }}
	}
	field := func(name string, value any) planted {
		return planted{"body.json." + name, func(d *drawn, _ *rand.Rand) { d.body[name] = value }}
	}
	customer := func(name string, value any) planted {
		return planted{"body.json.customer." + name, func(d *drawn, _ *rand.Rand) { d.body["customer"].(map[string]any)[name] = value }}
	}
	hours := func(from, n int) planted {
		return planted{"@timestamp", func(d *drawn, random *rand.Rand) {
			d.at = corpusBegin().Add(time.Duration(from)*time.Hour + time.Duration(random.Int64N(int64(time.Duration(n)*time.Hour))))
		}}
	}
	return []planted{
		header("tenant", "tenant-3"), header("h15", "v-7"), header("h19", "v-30"), header("version", "v2.4-1"),
		{"headers.coupon", func(d *drawn, random *rand.Rand) { d.headers["coupon"] = strconv.FormatUint(random.Uint64(), 36) }},
		{"headers.signature", func(d *drawn, _ *rand.Rand) { delete(d.headers, "signature") }},
		{"messaging.app_id", func(d *drawn, _ *rand.Rand) { d.appID = "shop-7" }},
		{"messaging.app_id", func(d *drawn, _ *rand.Rand) { d.appID = "shop-11" }},
		{"messaging.destination.name", func(d *drawn, _ *rand.Rand) { d.exchange = "exchange-4" }},
		{"messaging.rabbitmq.destination.routing_key", func(d *drawn, _ *rand.Rand) { d.key = "order.step-8" }},
		hours(3, 1), hours(8, 2), hours(0, 1),
		{"headers.release", func(d *drawn, random *rand.Rand) { // which all publishers have since an hour
			d.at = corpusBegin().Add(deployHour*time.Hour + time.Duration(random.Int64N(int64((corpusHours-deployHour)*time.Hour))))
		}},
		field("f16", "v-2"), field("f19", "v-20"), customer("country", "country-5"), customer("vip", true),
		{"body.json.amount", func(d *drawn, random *rand.Rand) { d.body["amount"] = float64(970_000+random.IntN(30_000)) / 100 }},
		{"body.json.tags", func(d *drawn, _ *rand.Rand) { d.body["tags"] = []string{"tag-1", "tag-9"} }},
	}
}

// corpus stores messages that the queue handled, and failures of groups with the classes cause-0,
// cause-1, … and none-0, none-1, …, of which it has every so many.
func corpus(t testing.TB, sys *system.System, handled, failures, every int) {
	t.Helper()
	random := rand.New(rand.NewPCG(39, 2))
	var events []schemas.Event
	n := 0
	keep := func(list ...schemas.Event) {
		if events = append(events, list...); len(events) >= 2000 {
			systemtest.Record(t, sys, events...)
			events = events[:0]
		}
	}
	for range handled {
		n++
		d := draw(random)
		keep(d.event(schemas.Published, n, true), d.event(schemas.Handled, n, false))
	}
	fail := func(class string, plant func(*drawn, *rand.Rand)) {
		for range failures {
			n++
			d := draw(random)
			if random.Float64() < 0.9 {
				plant(&d, random)
			}
			e := d.event(schemas.Poisoned, n, true)
			e.Failure = schemas.Failure{Message: "no stock", Class: class}
			keep(e)
		}
	}
	for i, cause := range plants() {
		if i%every != 0 {
			continue
		}
		fail(fmt.Sprint("cause-", i), cause.plant)
		fail(fmt.Sprint("none-", i), func(*drawn, *rand.Rand) {})
	}
	systemtest.Record(t, sys, events...)
}

// explain returns what distinguishes a group, as a person sees it who may do everything.
func explain(t testing.TB, sys *system.System, of string) Why {
	t.Helper()
	ctx := access.NewContext(t.Context(), access.AsOperator("ann"))
	out, err := operations{Service{sys}}.why(ctx, &WhyInput{Of: of})
	if err != nil {
		t.Fatal(err)
	}
	return out.Body
}

// inElasticsearch returns a System with a store in Elasticsearch, and skips tests without one.
func inElasticsearch(t testing.TB) *system.System {
	t.Helper()
	url := os.Getenv("WATERSHIP_TEST_STORE_URL")
	if url == "" {
		t.Skip("WATERSHIP_TEST_STORE_URL is not set")
	}
	sys := systemtest.New(t, "WATERSHIP_AMQP_URL=amqp://127.0.0.1:1/", "WATERSHIP_STORE_URL="+url, "WATERSHIP_STORE_STREAM=test-why-"+strconv.FormatInt(time.Now().UnixNano(), 36))
	store, err := sys.Store(t.Context())
	if err == nil {
		err = store.Install(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return sys
}

// each runs a test on both stores.
func each(t *testing.T, do func(t *testing.T, sys *system.System)) {
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		sys, _ := systemtest.Embedded(t)
		do(t, sys)
	})
	t.Run("elasticsearch", func(t *testing.T) {
		t.Parallel()
		do(t, inElasticsearch(t))
	})
}

func TestWhyFindsThePlantedCauses(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, sys *system.System) {
		corpus(t, sys, 400, 40, 4)
		findPlanted(t, sys, 4)
	})
}

// The same with more messages and all causes. It logs the time of a comparison.
func TestSoakWhy(t *testing.T) {
	if os.Getenv("WATERSHIP_TEST_SOAK") == "" {
		t.Skip("long: set WATERSHIP_TEST_SOAK=1")
	}
	each(t, func(t *testing.T, sys *system.System) {
		corpus(t, sys, 100_000, 500, 1)
		findPlanted(t, sys, 1)
	})
}

// findPlanted checks every so many groups: that the planted cause is first in 19 of 20, that nothing is found in those
// without one, and that the counts are those that the queries find.
func findPlanted(t *testing.T, sys *system.System, every int) {
	t.Helper()
	store, err := sys.Store(t.Context())
	must(t, err)
	check := func(c Counted) {
		t.Helper()
		if c.Query == "" || c.Sample {
			return
		}
		node, err := sys.ParseQuery(c.Query)
		must(t, err)
		if n, err := store.Count(t.Context(), eventstore.Selection{Query: node}); err != nil || n != int64(c.With) {
			t.Errorf("%d events, %v, want %d: %s", n, err, c.With, c.Query)
		}
	}
	first, longest, total := 0, time.Duration(0), time.Duration(0)
	groups := 0
	for i, cause := range plants() {
		if i%every != 0 {
			continue
		}
		groups++
		begin := time.Now()
		why := explain(t, sys, groupOf("orders", fmt.Sprint("cause-", i)))
		took := time.Since(begin)
		longest, total = max(longest, took), total+took
		if len(why.Causes) > 0 && slices.ContainsFunc(append(why.Causes[0].Same, why.Causes[0].Condition), func(c Condition) bool { return c.Field == cause.field }) {
			first++
		} else {
			t.Logf("cause %d (%s) is not first: %s", i, cause.field, short(why))
		}
		for _, c := range why.Causes {
			check(c.Failures)
			check(c.Handled)
		}
		if none := explain(t, sys, groupOf("orders", fmt.Sprint("none-", i))); none.Outcome != Nothing || len(none.Causes) > 0 || none.Bodies != BodiesCompared {
			t.Errorf("without cause %d: %s, %s", i, none.Outcome, short(none))
		}
	}
	if first < groups-groups/20 {
		t.Errorf("the cause is first in %d of %d groups", first, groups)
	}
	t.Logf("the cause is first in %d of %d groups, %s for one, at most %s", first, groups, total/time.Duration(groups), longest)
}

// short returns the causes without their queries.
func short(why Why) (text string) {
	for _, c := range why.Causes {
		text += fmt.Sprintf("%s %s %s %d/%d against %s %d/%d; ", c.Field, c.Test, c.Value, c.Failures.With, c.Failures.Of, c.Against, c.Handled.With, c.Handled.Of)
	}
	return text
}

// caller returns a context of a viewer without bodies.
func caller(t *testing.T) context.Context {
	t.Helper()
	return access.NewContext(t.Context(), access.Identity{Name: "vera", Role: access.Viewer})
}

func TestWhyReadsNoBodiesForOthers(t *testing.T) {
	each(t, func(t *testing.T, sys *system.System) {
		random := rand.New(rand.NewPCG(1, 1))
		var events []schemas.Event
		for n := range 300 {
			d := draw(random)
			if n < 50 {
				d.body["secret"], d.headers["tenant"] = "s3cret", "acme"
				e := d.event(schemas.Poisoned, n, true)
				e.Failure = schemas.Failure{Message: "no stock", Class: "x"}
				events = append(events, e)
				continue
			}
			events = append(events, d.event(schemas.Published, n, true), d.event(schemas.Handled, n, false))
		}
		systemtest.Record(t, sys, events...)
		group := groupOf("orders", "x")
		why := explain(t, sys, group)
		if why.Outcome != Found || why.Bodies != BodiesCompared || why.Causes[0].Field != "headers.tenant" || !strings.Contains(fmt.Sprint(why.Causes[0].Same), "s3cret") {
			t.Errorf("%+v", why)
		}
		out, err := operations{Service{sys}}.why(caller(t), &WhyInput{Of: group})
		must(t, err)
		if why := out.Body; why.Outcome != Found || why.Bodies != BodiesHidden || strings.Contains(fmt.Sprintf("%+v", why), "body.json") {
			t.Errorf("%+v", why)
		}
		// The bodies of handled messages are in events of their exchanges, which another caller may not see.
		limited := access.AsOperator("ann")
		limited.Queues = []string{"orders"}
		out, err = operations{Service{sys}}.why(access.NewContext(t.Context(), limited), &WhyInput{Of: group})
		must(t, err)
		if why := out.Body; why.Outcome != Found || why.Bodies != BodiesUnknown || strings.Contains(fmt.Sprintf("%+v", why), "body.json") {
			t.Errorf("of one queue: %+v", why)
		}
		// A caller whose access to bodies cannot be recorded reads none.
		if _, err := (operations{Service{sys}}).why(as(t), &WhyInput{Of: group}); err == nil {
			t.Error("no error, although the access was not recorded")
		}
		byMessage := explain(t, sys, "m-7")
		if byMessage.Group != group || len(byMessage.Causes) != len(why.Causes) {
			t.Errorf("by a message: %+v", byMessage)
		}
	})
}

func TestWhyOfFewAndOfAll(t *testing.T) {
	s := newStored(t)
	at := time.Now().Add(-time.Minute)
	fails := func(id, class string) schemas.Event {
		e := failed("orders", id, class)
		e.Time = at
		return e
	}
	systemtest.Record(t, s.System, fails("a", "x"), fails("b", "y"), fails("c", "y"))
	if why := explain(t, s.System, groupOf("orders", "x")); why.Outcome != NoneHandled || why.Causes == nil || why.Failures != (Compared{1, 1}) {
		t.Errorf("%+v", why)
	}
	var events []schemas.Event
	for n := range 50 {
		e := failed("orders", fmt.Sprint("h", n), "")
		e.Action, e.Failure, e.EventID, e.Time = schemas.Handled, schemas.Failure{}, fmt.Sprint("handled-", n), at.Add(-time.Duration(n)*time.Second)
		events = append(events, e)
	}
	systemtest.Record(t, s.System, events...)
	for _, class := range []string{"x", "y"} {
		if why := explain(t, s.System, groupOf("orders", class)); why.Outcome != FewFailures || why.Handled.Count != 50 {
			t.Errorf("%+v", why)
		}
	}
	ctx := access.NewContext(t.Context(), access.AsOperator("ann"))
	later, err := (operations{s}).why(ctx, &WhyInput{Of: groupOf("orders", "x"), Since: "1s"})
	if err != nil || later.Body.Outcome != NoFailures || later.Body.Bodies == BodiesHidden || !later.Body.From.IsZero() {
		t.Errorf("a time without failures: %+v (%v)", later, err)
	}
	for of, want := range map[string]string{"nobody": "neither a group of failures nor a message", "h7": "has not failed for good"} {
		if _, err := (operations{s}).why(ctx, &WhyInput{Of: of}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", of, err, want)
		}
	}
	if _, err := (operations{s}).why(ctx, &WhyInput{Of: groupOf("orders", "x"), Since: "soon"}); err == nil || !strings.Contains(err.Error(), "soon") {
		t.Errorf("%v", err)
	}
	if _, err := (operations{s}).why(as(t, "mail"), &WhyInput{Of: groupOf("orders", "x")}); err == nil {
		t.Error("the group of another queue was explained")
	}
}

// What RabbitMQ, Watership and frameworks add to a failed message is no cause, and neither is its id.
func TestWhyLeavesOutWhatAFailureAdds(t *testing.T) {
	sys, _ := systemtest.Embedded(t)
	var events []schemas.Event
	at := time.Now() // of all: only messages that were handled between the failures are compared with them
	for n := range 200 {
		e := failed("orders", fmt.Sprint(n), "x")
		e.Time = at
		e.Envelope.Headers["odd.name: \"x\" and *"] = "a:b \"*\" and"
		e.Envelope.Headers["x-death"] = []any{amqp.Table{"queue": "orders", "reason": "rejected"}}
		e.Envelope.Headers["x-first-death-queue"], e.Envelope.Headers["MT-Fault-Message"] = "orders", "no stock"
		e.Envelope.Headers["NServiceBus.ExceptionInfo.Message"], e.Envelope.Headers["x-exception-message"] = "no stock", "no stock"
		e.Attempt = 3
		if n >= 50 {
			e.Action, e.Failure, e.Attempt = schemas.Handled, schemas.Failure{}, 1
			e.Envelope.Headers = amqp.Table{"tenant": fmt.Sprint("tenant-", n)}
		}
		events = append(events, e)
	}
	systemtest.Record(t, sys, events...)
	why := explain(t, sys, groupOf("orders", "x"))
	if len(why.Causes) != 1 || why.Causes[0].Field != `headers.odd.name: "x" and *` || why.Causes[0].Test != compare.Is || why.Causes[0].Failures.With != 50 || why.Causes[0].Failures.Sample {
		t.Errorf("%+v", why)
	}
	for _, same := range why.Causes[0].Same {
		if same.Field != why.Causes[0].Field {
			t.Errorf("%+v is a cause", same)
		}
	}
	if node, err := kql.Parse(why.Causes[0].Failures.Query); err != nil || node == nil {
		t.Errorf("%v: %s", err, why.Causes[0].Failures.Query)
	}
}
