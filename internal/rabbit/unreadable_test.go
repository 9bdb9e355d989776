package rabbit

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/schemas"
)

// wireTable returns the encoded entries of a table: arguments are alternately names
// and values, the values with their field type.
func wireTable(namesAndValues ...string) []byte {
	var table []byte
	for pair := range slices.Chunk(namesAndValues, 2) {
		table = append(table, byte(len(pair[0])))
		table = append(append(table, pair[0]...), pair[1]...)
	}
	return table
}

func ofLength(kind byte, content []byte) string {
	return string(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(content)))) + string(content)
}

// deep returns an encoded table with one header of n nested tables.
func deep(n int) []byte {
	value := "V"
	for range n {
		value = ofLength('F', wireTable("h", value))
	}
	return wireTable("t", value)
}

// contentFrame returns a content header frame with a content type, the headers and
// a message id.
func contentFrame(table []byte) []byte {
	payload := append([]byte{0, 60, 0, 0}, make([]byte, 8)...)
	payload = binary.BigEndian.AppendUint16(payload, flagContentType|flagHeaders|0x0080)
	payload = append(payload, "\x04text"...)
	payload = binary.BigEndian.AppendUint32(payload, uint32(len(table)))
	payload = append(append(payload, table...), "\x02id"...)
	frame := binary.BigEndian.AppendUint32([]byte{frameContent, 0, 1}, uint32(len(payload)))
	return append(append(frame, payload...), 0xCE)
}

func tableOf(t testing.TB, frame []byte) []byte {
	t.Helper()
	start, end, ok := headersOf(frame)
	if !ok {
		t.Fatalf("no headers in %q", frame)
	}
	return frame[start:end]
}

func TestSetAsideKeepsWhatCanBeRead(t *testing.T) {
	unfit := ofLength('F', deep(40))
	array := func(n int) string { return ofLength('A', bytes.Repeat([]byte("V"), n)) }
	text := ofLength('S', []byte("text"))
	many := func(n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf("h%04d", i), "V")
		}
		return all
	}
	for name, test := range map[string]struct{ headers, kept, aside []byte }{
		"nothing":         {wireTable(), nil, nil},
		"ordinary":        {wireTable("a", text, "b", "V"), nil, nil},
		"deep enough":     {deep(32), nil, nil},
		"too deep":        {deep(33), wireTable(), deep(33)},
		"array":           {wireTable("a", array(8192)), nil, nil},
		"long array":      {wireTable("a", array(8193)), wireTable(), wireTable("a", array(8193))},
		"ours stays":      {wireTable("z", unfit, "watership-v", "b\x01", "b", unfit, "CC", text), wireTable("watership-v", "b\x01", "CC", text), wireTable("b", unfit, "z", unfit)},
		"x- of others":    {wireTable("x-theirs", unfit, "x-death", text), wireTable("x-death", text), wireTable("x-theirs", unfit)},
		"strange inside":  {wireTable("a", text, "b", ofLength('A', []byte("Z?"))), wireTable("a", text), wireTable("b", ofLength('A', []byte("Z?")))},
		"strange":         {wireTable("b", unfit, "a", text, "c", "Z??", "d", "V"), wireTable("a", text), wireTable("b", unfit, "c", "Z??", "d", "V")},
		"its own name":    {wireTable(UnreadableHeaders, text, "a", "V"), wireTable("a", "V"), wireTable(UnreadableHeaders, text)},
		"many":            {wireTable(many(crowd)...), nil, nil},
		"too many":        {wireTable(append(many(crowd+1), "x-a", "V")...), wireTable("x-a", "V"), wireTable(many(crowd + 1)...)},
		"broken, not too": {wireTable("a", "S\x00\x00\x00\x09short"), wireTable(), wireTable("a", "S\x00\x00\x00\x09short")},
	} {
		frame := contentFrame(test.headers)
		instead := setAside(frame)
		if test.kept == nil && test.aside == nil {
			if instead != nil {
				t.Errorf("%s: changed to %q", name, instead)
			}
			continue
		}
		want := contentFrame(appendBytes(test.kept, UnreadableHeaders, test.aside))
		if !bytes.Equal(instead, want) {
			t.Errorf("%s: changed to\n%q, want\n%q", name, instead, want)
			continue
		}
		if got := tableOf(t, putBack(instead)); !bytes.Equal(got, append(test.kept, test.aside...)) {
			t.Errorf("%s: put back as %q", name, got)
		}
	}
}

// TestWhatIsObeyedIsNeverPutBack checks that an unreadable CC is not restored: the
// message would reach any queue with the permissions of the next publisher.
func TestWhatIsObeyedIsNeverPutBack(t *testing.T) {
	unfit := ofLength('A', []byte(ofLength('S', []byte("victim"))+ofLength('F', deep(40))))
	for _, name := range []string{"CC", "BCC", "x-death", "x-first-death-queue", "x-delivery-count", "watership-queue"} {
		want := wireTable("a", unfit)
		var record []byte
		if strings.HasSuffix(name, "CC") {
			record = appendBytes(nil, UnreadableCC, wireTable(name, unfit))
		}
		frame := setAside(contentFrame(wireTable("a", unfit, name, unfit)))
		if !bytes.Equal(frame, contentFrame(append(appendBytes(nil, UnreadableHeaders, want), record...))) {
			t.Errorf("%s is set aside: %q", name, frame)
		}
		if frame := setAside(contentFrame(wireTable(name, unfit))); !bytes.Equal(tableOf(t, frame), record) {
			t.Errorf("%s alone is set aside: %q", name, frame)
		}
		for what, aside := range map[string][]byte{
			"unreadable": wireTable("a", unfit, name, unfit), "readable": wireTable("a", unfit, name, ofLength('S', []byte("victim"))),
			"behind a type of tomorrow": wireTable("a", unfit, "b", "Z??", name, unfit),
		} {
			back := putBack(contentFrame(appendBytes(nil, UnreadableHeaders, aside)))
			if !bytes.Equal(tableOf(t, back), want) {
				t.Errorf("%s, %s, is put back: %q", name, what, tableOf(t, back))
			}
		}
		strange := setAside(contentFrame(wireTable("a", unfit, "b", "Z??", name, unfit)))
		if bytes.Contains(strange, []byte(name)) {
			t.Errorf("%s is set aside behind a type of tomorrow: %q", name, strange)
		}
	}
}

func TestPutBackPrefersWhatWasSetSince(t *testing.T) {
	aside := wireTable("a", "b\x01", "b", "b\x02")
	frame := contentFrame(appendBytes(wireTable("a", "b\x03"), UnreadableHeaders, aside))
	if got := tableOf(t, putBack(frame)); !bytes.Equal(got, wireTable("a", "b\x03", "b", "b\x02")) {
		t.Errorf("got %q", got)
	}
}

// entries returns the encoded entries of a table, sorted.
func entries(table []byte) []string {
	var all []string
	end := eachEntry(table, func(e entry) { all = append(all, string(e.whole)) })
	return slices.Sorted(slices.Values(append(all, string(end))))
}

// FuzzSetAside checks that the client receives only readable headers, that
// republishing restores the original ones except obeyed headers, and that a second
// hop changes nothing.
func FuzzSetAside(f *testing.F) {
	for _, table := range [][]byte{
		nil, deep(3), deep(40), wireTable("a", "Z"), wireTable("a", ofLength('A', []byte("VVt\x01"))),
		wireTable(UnreadableHeaders, "V", "x-death", ofLength('F', deep(40))),
		wireTable("CC", ofLength('F', deep(40)), "a", ofLength('F', deep(40)), "BCC", "Z"),
		wireTable("CC", ofLength('F', deep(40)), UnreadableCC, "V", "a", "Z"),
	} {
		f.Add(table)
	}
	f.Fuzz(func(t *testing.T, table []byte) {
		names := map[string]bool{}
		eachEntry(table, func(e entry) {
			if names[string(e.name)] {
				t.Skip() // invalid table: names are unique
			}
			names[string(e.name)] = true
		})
		instead := setAside(contentFrame(table))
		if instead == nil {
			return
		}
		eachEntry(tableOf(t, instead), func(e entry) {
			if string(e.name) != UnreadableHeaders && !clientReads(e.name, e.kind, e.content) {
				t.Fatalf("not readable: %q", e.whole)
			}
		})
		back := putBack(instead)
		if back == nil {
			return // no UnreadableHeaders
		}
		got := tableOf(t, back)
		if all := entries(table); !slices.Equal(entries(got), all) && !slices.Equal(entries(got), entries(lawful(table, tableOf(t, instead)))) {
			t.Fatalf("put back as %q", got)
		}
		if again := setAside(back); !slices.Equal(entries(tableOf(t, again)), entries(tableOf(t, instead))) {
			t.Fatalf("again: %q, before: %q", again, instead)
		}
	})
}

// lawful returns the table without unreadable obeyed headers and without an end
// that cannot be split into entries, with the UnreadableCC that the client
// received.
func lawful(table, seen []byte) (rest []byte) {
	count, recorded := 0, false
	eachEntry(seen, func(e entry) {
		if string(e.name) == UnreadableCC {
			rest, recorded = append(rest, e.whole...), true
		}
	})
	end := eachEntry(table, func(e entry) {
		if count++; recorded && string(e.name) == UnreadableCC {
			return
		}
		if !obeyed(e.name) || clientReads(e.name, e.kind, e.content) && count < clientElements {
			rest = append(rest, e.whole...)
		}
	})
	return append(rest, unsplit(end)...)
}

// BenchmarkHeaders measures the inspection of a message with eight headers.
func BenchmarkHeaders(b *testing.B) {
	headers := []string{"x-death", ofLength('A', []byte(ofLength('F', wireTable(
		"count", "l\x00\x00\x00\x00\x00\x00\x00\x01", "queue", ofLength('S', []byte("orders.created")),
		"reason", ofLength('S', []byte("expired")), "exchange", ofLength('S', nil)))))}
	for i := range 7 {
		headers = append(headers, fmt.Sprintf("header-%d", i), ofLength('S', []byte("a value of ordinary length")))
	}
	frame := contentFrame(wireTable(headers...))
	for name, look := range map[string]func([]byte) []byte{"in": setAside, "out": putBack} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if look(frame) != nil {
					b.Fatal("changed")
				}
			}
		})
	}
}

// nested returns headers nested deeper than the client library can decode; its
// encoder has no limit. They contain every field type.
func nested(depth int) amqp.Table {
	value := amqp.Table{
		"text": "ü", "bytes": []byte{0, 255}, "void": nil, "bool": true, "int8": int8(-1), "uint8": uint8(200),
		"int16": int16(-2), "uint16": uint16(60000), "int32": int32(-3), "uint32": uint32(1 << 31), "int64": int64(1 << 40),
		"float32": float32(1.5), "float64": 2.5, "decimal": amqp.Decimal{Scale: 2, Value: 100},
		"time": time.Unix(1_700_000_000, 0), "array": []any{"a", int32(1), []any{}},
	}
	for range depth - 1 {
		value = amqp.Table{"h": value, "z": "last", "a": []any{"first"}}
	}
	return value
}

// recorder records the bytes that the broker sent on one connection.
type recorder struct {
	mu  sync.Mutex // guards all
	all []byte
}

type recorded struct {
	net.Conn
	into *recorder
}

func (r recorded) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	r.into.mu.Lock()
	defer r.into.mu.Unlock()
	r.into.all = append(r.into.all, p[:n]...)
	return n, err
}

func (r *recorder) dial(network, addr string) (net.Conn, error) {
	conn, err := net.Dial(network, addr)
	return recorded{conn, r}, err
}

// headers returns the headers tables of the recorded content headers.
func (r *recorder) headers(t testing.TB) (tables [][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, rest := cutter{}, r.all
	for len(rest) > 0 {
		pass, whole := c.cut(rest)
		if pass+whole == 0 {
			break
		}
		if whole > 0 {
			tables = append(tables, tableOf(t, rest[:whole]))
		}
		rest = rest[pass+whole:]
	}
	return tables
}

// unreadable returns headers that the client library cannot decode, each for
// another reason.
func unreadable() map[string]amqp.Table {
	crowded := amqp.Table{}
	for i := range 9000 {
		crowded[fmt.Sprintf("h%d", i)] = nil
	}
	return map[string]amqp.Table{
		"too deep":   {"t": nested(33), "plain": "text", "also": amqp.Table{"ok": true}},
		"far deeper": {"t": nested(1000)},
		"too long":   {"array": make([]any, 8193), "table": crowded, "plain": "text"},
		"too many":   crowded,
		"reserved":   {UnreadableHeaders: []byte("theirs"), "plain": "text"},
	}
}

func TestUnreadableHeadersStopNobody(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		for name, headers := range unreadable() {
			t.Run(name, func(t *testing.T) {
				rabbittest.NoLeaks(t)
				queue := b.Queue(t, amqp.Table{"x-queue-type": "quorum"})
				ch := b.Channel(t)
				for i := range 100 {
					p := amqp.Publishing{Body: fmt.Append(nil, i), MessageId: fmt.Sprint(i)}
					if p.Headers = (amqp.Table{"i": int32(i)}); i == 50 {
						p.Headers = headers
					}
					if err := ch.Publish("", queue, false, false, p); err != nil {
						t.Fatal(err)
					}
				}
				var sent recorder
				c := open(t, b.URL, func(c *Config) { c.LargeFrames, c.Dial = true, sent.dial })
				r := consume(t, c, ConsumeConfig{Queue: queue, Prefetch: 200})
				session := rabbittest.Receive(t, r.sessions)
				var unfit amqp.Delivery
				for i := range 100 {
					d := rabbittest.Receive(t, r.deliveries)
					if string(d.Body) != fmt.Sprint(i) || d.MessageId != fmt.Sprint(i) {
						t.Fatalf("got %s (%s), want %d", d.Body, d.MessageId, i)
					}
					if i == 50 {
						unfit = d
					} else if d.Headers["i"] != int32(i) {
						t.Fatalf("headers %v", d.Headers)
					}
				}
				if err := session.Ack(unfit.DeliveryTag, false); err != nil {
					t.Error(err)
				}
				aside, _ := unfit.Headers[UnreadableHeaders].([]byte)
				if len(aside) == 0 || headers["plain"] != nil && unfit.Headers["plain"] != "text" {
					t.Fatalf("headers %.200v", unfit.Headers)
				}
				original := sent.headers(t)[50]
				passOn(t, b, unfit, original)
			})
		}
	})
}

// passOn republishes a delivery and expects its original headers.
func passOn(t *testing.T, b rabbittest.Broker, d amqp.Delivery, original []byte) {
	t.Helper()
	queue := b.Queue(t, nil)
	var sent recorder
	c := open(t, b.URL, func(c *Config) { c.Dial = sent.dial })
	m := Message{RoutingKey: queue, Publishing: schemas.FromDelivery(d).Publishing()}
	if err := publisher(t, c, 0).Publish(patient(t), m); err != nil {
		t.Fatal(err)
	}
	ch, err := c.Channel(patient(t))
	if err != nil {
		t.Fatal(err)
	}
	again, ok, err := ch.Get(queue, true)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if got := sent.headers(t)[0]; !slices.Equal(entries(got), entries(original)) {
		t.Errorf("published as %.300q, was %.300q", got, original)
	}
	if got, want := fmt.Sprint(again.Headers), fmt.Sprint(d.Headers); got != want {
		t.Errorf("came as %.300s, was %.300s", got, want)
	}
}

// TestUnreadableHeadersKeepTheirState checks that the fingerprint of a message is
// the same after every hop, including dead-lettering by the broker.
func TestUnreadableHeadersKeepTheirState(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		c := open(t, b.URL, func(c *Config) { c.LargeFrames = true })
		p := publisher(t, c, 0)
		last := b.Queue(t, amqp.Table{"x-queue-type": "quorum"})
		wait := b.Queue(t, amqp.Table{
			"x-queue-type": "quorum", "x-message-ttl": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": last,
		})
		headers := unreadable()["too deep"]
		headers["CC"] = []any{"elsewhere"}
		if err := b.Channel(t).Publish("", last, false, false, amqp.Publishing{Headers: headers, Priority: 3}); err != nil {
			t.Fatal(err)
		}
		r := consume(t, c, ConsumeConfig{Queue: last, Prefetch: 1})
		session := rabbittest.Receive(t, r.sessions)
		var known string
		for attempt := range 4 {
			d := rabbittest.Receive(t, r.deliveries)
			verifier := schemas.Verifier{FormerRelease: true} // former releases used the default exchange
			belief, err := verifier.Verify(schemas.FromDelivery(d), d.Exchange, last)
			if err != nil || belief.Mismatch || belief.State.Attempt != attempt {
				t.Fatalf("attempt %d: %+v, %v; headers %.500v", attempt, belief.State, err, d.Headers)
			}
			if known == "" {
				known = belief.State.Fingerprint
			}
			e := belief.Envelope
			if got := e.Fingerprint(); got != known || e.Headers["CC"] == nil || e.RoutingKey != last {
				t.Fatalf("attempt %d: known by %s, then by %s: %.500v", attempt, known, got, e.Headers)
			}
			state := belief.State.Failed(time.Now(), 0, last, schemas.Failure{Message: "again"})
			if err := p.Publish(patient(t), Message{RoutingKey: wait, Publishing: schemas.Wrap(e, state)}); err != nil {
				t.Fatal(err)
			}
			if err := session.Ack(d.DeliveryTag, false); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestUnreadableHeadersCanBeReturned checks that an unroutable message with such
// headers is returned on the publishing connection without ending it.
func TestUnreadableHeadersCanBeReturned(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		var logged rabbittest.Log
		c := open(t, b.URL, func(c *Config) { c.Logger = logged.Logger() })
		p := publisher(t, c, 0)
		queue := b.Queue(t, nil)
		aside := wireTable("t", ofLength('F', deep(50)))
		all := sendAll(t, p, queue, 50)
		lost, err := p.Send(patient(t), Message{RoutingKey: rabbittest.Name(t), Publishing: amqp.Publishing{
			Headers: amqp.Table{UnreadableHeaders: aside, "a": "b"},
		}})
		if err != nil {
			t.Fatal(err)
		}
		waitAll(t, append(all, sendAll(t, p, queue, 50)...))
		var unroutable *UnroutableError
		if err := lost.Wait(patient(t)); !errors.As(err, &unroutable) {
			t.Errorf("got %v", err)
		}
		if logged.Count("lost") > 0 {
			t.Error(logged.String())
		}
	})
}

func TestOnlyHeadersCanBePutBack(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for name, value := range map[string]any{
		"text": "text", "no table": []byte("nonsense"), "cut": deep(40)[:100],
		"broken inside": wireTable("t", ofLength('F', []byte("\x01aS\x00\x00\x00\x09short"))),
	} {
		m := Message{Publishing: amqp.Publishing{Headers: amqp.Table{UnreadableHeaders: value}}}
		if err := m.check(); err == nil || !strings.Contains(err.Error(), UnreadableHeaders) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, value := range map[string][]byte{
		"nothing": {}, "deep": deep(5000), "wide": wireTable("t", ofLength('S', []byte(long))), "strange": wireTable("t", "Zzz"),
	} {
		m := Message{Publishing: amqp.Publishing{Headers: amqp.Table{UnreadableHeaders: value}}}
		if err := m.check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
