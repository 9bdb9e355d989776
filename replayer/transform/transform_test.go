package transform_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/replayer/transform"
	"github.com/watershipmq/watership/schemas"
)

func order() schemas.Envelope {
	return schemas.Envelope{
		Exchange: "shop", RoutingKey: "order.created", Body: []byte(`{ "id": 12345678901234567890, "price": 1.10, "id2": 1 }`),
		Headers: amqp.Table{
			"tenant": "acme", "n8": int8(-3), "n16": int16(9), "n": int32(7), "long": int64(math.MaxInt64), "half": float32(0.5), "nan": math.NaN(),
			"when": time.Unix(1_700_000_000, 0), "raw": []byte("abc"), "bad": []byte{0xff}, "price": amqp.Decimal{Scale: 2, Value: 110},
			"nested": amqp.Table{"a": int8(1), "list": []any{uint8(2), "x"}}, "nothing": nil, "x-death": []any{amqp.Table{"queue": "q"}},
		},
		Properties: schemas.Properties{ContentType: "application/json", MessageID: "m-1", DeliveryMode: 2, Priority: 4, Timestamp: time.Unix(1_700_000_000, 0)},
	}
}

func parse(t testing.TB, text string) *transform.Program {
	t.Helper()
	p, err := transform.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// applier applies a program to a message.
type applier func(ctx context.Context, p *transform.Program, e schemas.Envelope) (changed schemas.Envelope, keep bool, err error)

// inEachProcess runs a test in this process, and in one for programs.
func inEachProcess(t *testing.T, test func(t *testing.T, apply applier)) {
	t.Run("this process", func(t *testing.T) { test(t, inProcess) })
	t.Run("processes", func(t *testing.T) { test(t, inProcesses(processes(t))) })
}

func inProcess(ctx context.Context, p *transform.Program, e schemas.Envelope) (changed schemas.Envelope, keep bool, err error) {
	return p.Apply(ctx, e)
}

func inProcesses(p *transform.Processes) applier {
	return func(ctx context.Context, program *transform.Program, e schemas.Envelope) (changed schemas.Envelope, keep bool, err error) {
		r := p.Apply(ctx, program, e)[0]
		return r.Message, r.Keep, r.Err
	}
}

func (a applier) must(t *testing.T, text string, e schemas.Envelope) schemas.Envelope {
	t.Helper()
	changed, keep, err := a(t.Context(), parse(t, text), e)
	if err != nil || !keep {
		t.Fatalf("%s: kept %v, %v", text, keep, err)
	}
	return changed
}

// A message stays exactly as it is, whatever its headers and its body are, unless the
// program changes it.
func TestUnchanged(t *testing.T) { inEachProcess(t, testUnchanged) }

func testUnchanged(t *testing.T, apply applier) {
	for name, body := range map[string][]byte{
		"json": order().Body, "two values": []byte("1 2"), "text": []byte("id;price\n1;2"), "binary": {0xff, 0}, "empty": nil, "duplicate": []byte(`{"a":1,"a":2}`),
	} {
		e := order()
		e.Body, e.Redacted = body, true
		for _, text := range []string{".", `.headers = (.headers | with_entries(.))`, `.headers.n = 7.0 | .properties.priority = 4`} {
			changed := apply.must(t, text, e)
			if diff := cmp.Diff(e, changed, cmp.Comparer(func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) })); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s", name, text, diff)
			}
		}
	}
}

// Only what the program changes is another: each member with its type.
func TestChanges(t *testing.T) { inEachProcess(t, testChanges) }

func testChanges(t *testing.T, apply applier) {
	for text, change := range map[string]func(*schemas.Envelope){
		`.routing_key = "order.v2" | .exchange = ""`: func(e *schemas.Envelope) { e.RoutingKey, e.Exchange = "order.v2", "" },
		`.body.price = 2`:                                       func(e *schemas.Envelope) { e.Body = []byte(`{"id":12345678901234567890,"id2":1,"price":2}`) },
		`del(.body.id)`:                                         func(e *schemas.Envelope) { e.Body = []byte(`{"id2":1,"price":1.10}`) },
		`.body = null`:                                          func(e *schemas.Envelope) { e.Body = []byte("null") },
		`del(.body) | .body_text = "hi"`:                        func(e *schemas.Envelope) { e.Body = []byte("hi") },
		`del(.body) | .body_base64 = "/wA="`:                    func(e *schemas.Envelope) { e.Body = []byte{0xff, 0} },
		`.headers.n += 1`:                                       func(e *schemas.Envelope) { e.Headers["n"] = int64(8) },
		`.headers.half = 2`:                                     func(e *schemas.Envelope) { e.Headers["half"] = 2.0 },
		`.headers.new = .body.id2`:                              func(e *schemas.Envelope) { e.Headers["new"] = int64(1) },
		`.headers.new = 1.5`:                                    func(e *schemas.Envelope) { e.Headers["new"] = 1.5 },
		`.headers.nested.b = true`:                              func(e *schemas.Envelope) { e.Headers["nested"].(amqp.Table)["b"] = true },
		`.headers.nested.list += [3]`:                           func(e *schemas.Envelope) { e.Headers["nested"].(amqp.Table)["list"] = []any{uint8(2), "x", int64(3)} },
		`.headers.when = "2026-05-04T03:02:01Z"`:                func(e *schemas.Envelope) { e.Headers["when"] = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC) },
		`.headers.raw += "d"`:                                   func(e *schemas.Envelope) { e.Headers["raw"] = []byte("abcd") },
		`del(.headers.tenant)`:                                  func(e *schemas.Envelope) { delete(e.Headers, "tenant") },
		`.properties.priority = 9 | .properties.type = "order"`: func(e *schemas.Envelope) { e.Properties.Priority, e.Properties.Type = 9, "order" },
		`del(.properties.content_type)`:                         func(e *schemas.Envelope) { e.Properties.ContentType = "" },
		`.properties.timestamp = "2026-05-04T03:02:01Z"`:        func(e *schemas.Envelope) { e.Properties.Timestamp = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC) },
	} {
		want := order()
		change(&want)
		got := apply.must(t, text, order())
		if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

// The message of the caller stays as it was.
func TestTheOriginalStays(t *testing.T) { inEachProcess(t, testTheOriginalStays) }

func testTheOriginalStays(t *testing.T, apply applier) {
	e := order()
	apply.must(t, `.headers.nested.a = 5 | .headers.tenant = "x" | .body.id2 = 2`, e)
	if diff := cmp.Diff(order(), e, cmp.Comparer(func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLeftOut(t *testing.T) { inEachProcess(t, testLeftOut) }

func testLeftOut(t *testing.T, apply applier) {
	for _, text := range []string{"empty", "null", `select(.body.id2 > 1)`} {
		if _, keep, err := apply(t.Context(), parse(t, text), order()); keep || err != nil {
			t.Errorf("%s: kept %v, %v", text, keep, err)
		}
	}
}

// An error concerns the message, says why, and is short.
func TestErrors(t *testing.T) { inEachProcess(t, testErrors) }

func testErrors(t *testing.T, apply applier) {
	for text, want := range map[string]string{
		`., .`:                            "several outputs",
		`error("no " + .headers.tenant)`:  "no acme",
		`.body.id2 + "x"`:                 "cannot add: number",
		`halt`:                            "halt",
		`"text"`:                          "its output is of the type string",
		`{body: 1}`:                       "no text exchange",
		`.header = {}`:                    `the member "header"`,
		`del(.body)`:                      "has no body",
		`.body_text = "x"`:                "has body and body_text",
		`del(.body) | .body_base64 = "%"`: "body_base64",
		`del(.body) | .body_text = 1`:     "body_text is of the type number",
		`del(.headers)`:                   "no object headers",
		`del(.properties)`:                "no object properties",
		`.headers["x-death"] = 1`:         "x-death cannot be changed",
		`.headers["watership-queue"] = 1`: "watership-queue cannot be changed",
		`.headers[("x"*300)] = 1`:         "a name of 1 to 255 bytes",
		`.headers.a = {("x"*300): 1}`:     "the name of a member has 300 bytes",
		`.headers.n = nan`:                "cannot be sent",
		`.headers.n = 123456789012345678901234567890`: "too large",
		`.properties.message_id = "x"`:                `property "message_id"`,
		`.properties.user_id = "x"`:                   `property "user_id"`,
		`.properties.nosuch = "x"`:                    `property "nosuch"`,
		`.properties.priority = 300`:                  "property priority",
		`.properties.type = {}`:                       "property type",
		`.routing_key = ("x" * 256)`:                  "routing_key has 256 bytes",
		`.routing_key = 1`:                            "no text routing_key",
		`.body = ("x" * 20000000)`:                    "larger than 16 MiB",
		`.body = reduce range(60) as $i (0; [.,.])`:   "larger than 16 MiB",
		`.body = reduce range(20000) as $i (0; [.])`:  "nested more than 10000 deep",
		`error("x" * 100000)`:                         "xxx…",
		`def f: f; f`:                                 "ran longer than 1s",
	} {
		got, keep, err := apply(t.Context(), parse(t, text), order())
		var failed *transform.Error
		if !errors.As(err, &failed) || keep || !strings.Contains(err.Error(), want) || len(err.Error()) > 1000 || got.RoutingKey != "order.created" {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// A program has no access to the environment, files, modules and other messages, and what it
// cannot do is known before it runs.
func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"\n\n. as":           "line 3",
		"nosuch":             "function not defined: nosuch/0",
		"$nosuch":            "variable not defined: $nosuch",
		"input":              "not allowed",
		"[inputs]":           "not allowed",
		`import "a" as a; .`: "cannot load module",
		`include "a"; .`:     "cannot load module",
		"input_filename":     "not defined",
		"debug":              "not defined",
		strings.Repeat(" ", transform.MaxProgram+1): "at most 65536",
	} {
		if _, err := transform.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
	t.Setenv("WATERSHIP_SECRET", "x")
	for _, text := range []string{`.body = env`, `.body = $ENV`} {
		if got := applier(inProcess).must(t, text, order()); string(got.Body) != "{}" {
			t.Errorf("%s: %s", text, got.Body)
		}
	}
}

// A step that takes no notice of the time is not waited for, and the program runs no more.
func TestStuck(t *testing.T) {
	p := parse(t, `if .body.id2 == 1 then (reduce range(29) as $i (0; [.,.])) | (. == map(.)) else . end`)
	_, _, err := p.Apply(t.Context(), order())
	var stuck *transform.LimitError
	if !errors.As(err, &stuck) {
		t.Fatal(err)
	}
	if _, _, err := p.Apply(t.Context(), schemas.Envelope{}); !errors.As(err, &stuck) {
		t.Errorf("it runs again: %v", err)
	}
}

func TestApplyEndsWithItsContext(t *testing.T) { inEachProcess(t, testApplyEndsWithItsContext) }

func testApplyEndsWithItsContext(t *testing.T, apply applier) {
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	cancel(gone)
	if _, keep, err := apply(ctx, parse(t, "def f: f; f"), order()); !errors.Is(err, gone) || keep {
		t.Errorf("%v", err)
	}
}

// Whatever the message is, the identity changes nothing, and a changed message can be
// changed again.
func FuzzApply(f *testing.F) {
	f.Add([]byte(`{"a":1.50}`), "shop", "order", "name", "value", int64(3))
	f.Add([]byte("\xff\x00"), "", "", "x-death", "\xff", int64(-1))
	f.Add([]byte(`[1e999,-0,"\ud800"]`), "a", "b", "", "", int64(math.MinInt64))
	identity, change := parse(f, "."), parse(f, `.headers.added = 1 | .routing_key += "x"`)
	f.Fuzz(func(t *testing.T, body []byte, exchange, key, name, value string, n int64) {
		e := schemas.Envelope{
			Exchange: exchange, RoutingKey: key, Body: body,
			Headers: amqp.Table{name: value, "n": n, "t": amqp.Table{name: []byte(value), "d": time.Unix(n%1e9, 0)}},
		}
		if len(exchange) > 255 || len(key) > 254 || len(name) > 255 {
			return
		}
		same, keep, err := identity.Apply(t.Context(), e)
		if err != nil || !keep || !bytes.Equal(same.Body, body) {
			t.Fatalf("%q becomes %q: %v, %v", body, same.Body, keep, err)
		}
		if diff := cmp.Diff(e.Headers, same.Headers); diff != "" || same.Exchange != exchange || same.RoutingKey != key {
			t.Fatalf("%s%+v", diff, same)
		}
		changed, keep, err := change.Apply(t.Context(), e)
		if err != nil || !keep || !bytes.Equal(changed.Body, body) || changed.RoutingKey != key+"x" || changed.Headers["added"] != int64(1) {
			t.Fatalf("%+v: %v, %v", changed, keep, err)
		}
		if _, err := transform.JSON(changed); err != nil {
			t.Fatal(err)
		}
	})
}

// BenchmarkApply compares this process with a process for programs, for single messages and for
// pages. ns/op is of a message.
func BenchmarkApply(b *testing.B) {
	e := order()
	e.Body = []byte(`{"items":[` + strings.Repeat(`{"sku":"a-1","price":1.10},`, 30) + `{}]}`)
	programs := processes(b)
	for name, text := range map[string]string{"identity": ".", "change": `.body.items |= map(.currency = "EUR")`} {
		p := parse(b, text)
		for where, apply := range map[string]applier{"here": inProcess, "process": inProcesses(programs)} {
			b.Run(name+"/"+where, func(b *testing.B) {
				for b.Loop() {
					if _, _, err := apply(b.Context(), p, e); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		b.Run(name+"/pages", func(b *testing.B) {
			page := slices.Repeat([]schemas.Envelope{e}, 50)
			for n := 0; n < b.N; {
				for _, r := range programs.Apply(b.Context(), p, page[:min(len(page), b.N-n)]...) {
					if r.Err != nil {
						b.Fatal(r.Err)
					}
					n++
				}
			}
		})
	}
}

// Only the members that differ are in the program.
func TestDifference(t *testing.T) {
	for name, test := range map[string]struct{ before, after, want string }{
		"equal":                {`{"body":{"a":1},"exchange":""}`, "{\n \"exchange\": \"\", \"body\": {\"a\": 1}}", ""},
		"a member":             {`{"body":{"a":1},"exchange":""}`, `{"body":{"a":2},"exchange":""}`, `. + {"body":{"a":2}}`},
		"an exchange":          {`{"body":{"a":1},"exchange":""}`, `{"body":{"a":1},"exchange":"shop"}`, `. + {"exchange":"shop"}`},
		"a body with exchange": {`{"body":{"exchange":1},"exchange":""}`, `{"body":{"exchange":2},"exchange":""}`, `. + {"body":{"exchange":2}}`},
		"a body as text":       {`{"body":{"a":1},"exchange":""}`, `{"body_text":"a","exchange":""}`, `del(.body) + {"body_text":"a"}`},
	} {
		got, routed, err := transform.Difference([]byte(test.before), []byte(test.after))
		if diff := cmp.Diff(test.want, got); diff != "" || err != nil || routed != (name == "an exchange") {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}
