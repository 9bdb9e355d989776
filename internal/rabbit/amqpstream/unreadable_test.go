package amqpstream

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
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

func TestStashKeepsReadableHeaders(t *testing.T) {
	unfit := ofLength('F', deep(40))
	array := func(n int) string { return ofLength('A', bytes.Repeat([]byte("V"), n)) }
	text := ofLength('S', []byte("text"))
	many := func(n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf("h%04d", i), "V")
		}
		return all
	}
	for name, test := range map[string]struct{ headers, kept, stashed []byte }{
		"nothing":        {wireTable(), nil, nil},
		"ordinary":       {wireTable("a", text, "b", "V"), nil, nil},
		"deep enough":    {deep(32), nil, nil},
		"too deep":       {deep(33), wireTable(), deep(33)},
		"array":          {wireTable("a", array(8192)), nil, nil},
		"long array":     {wireTable("a", array(8193)), wireTable(), wireTable("a", array(8193))},
		"control stays":  {wireTable("z", unfit, "watership-v", "b\x01", "b", unfit, "CC", text), wireTable("watership-v", "b\x01", "CC", text), wireTable("b", unfit, "z", unfit)},
		"x- of others":   {wireTable("x-theirs", unfit, "x-death", text), wireTable("x-death", text), wireTable("x-theirs", unfit)},
		"unknown inside": {wireTable("a", text, "b", ofLength('A', []byte("Z?"))), wireTable("a", text), wireTable("b", ofLength('A', []byte("Z?")))},
		"unknown type":   {wireTable("b", unfit, "a", text, "c", "Z??", "d", "V"), wireTable("a", text), wireTable("b", unfit, "c", "Z??", "d", "V")},
		"its own name":   {wireTable(UnreadableHeaders, text, "a", "V"), wireTable("a", "V"), wireTable(UnreadableHeaders, text)},
		"many":           {wireTable(many(maxConstantHeaders)...), nil, nil},
		"too many":       {wireTable(append(many(maxConstantHeaders+1), "x-a", "V")...), wireTable("x-a", "V"), wireTable(many(maxConstantHeaders + 1)...)},
		"malformed":      {wireTable("a", "S\x00\x00\x00\x09short"), wireTable(), wireTable("a", "S\x00\x00\x00\x09short")},
	} {
		frame := contentFrame(test.headers)
		changed := stash(frame)
		if test.kept == nil && test.stashed == nil {
			if changed != nil {
				t.Errorf("%s: changed to %q", name, changed)
			}
			continue
		}
		want := contentFrame(appendByteArray(test.kept, UnreadableHeaders, test.stashed))
		if !bytes.Equal(changed, want) {
			t.Errorf("%s: changed to\n%q, want\n%q", name, changed, want)
			continue
		}
		if got := tableOf(t, restore(changed)); !bytes.Equal(got, append(test.kept, test.stashed...)) {
			t.Errorf("%s: restored as %q", name, got)
		}
	}
}

// TestControlHeadersAreNotRestored checks that an unreadable CC is not restored: the
// message would reach any queue with the permissions of the next publisher.
func TestControlHeadersAreNotRestored(t *testing.T) {
	unfit := ofLength('A', []byte(ofLength('S', []byte("victim"))+ofLength('F', deep(40))))
	for _, name := range []string{"CC", "BCC", "x-death", "x-first-death-queue", "x-delivery-count", "watership-queue"} {
		want := wireTable("a", unfit)
		var record []byte
		if strings.HasSuffix(name, "CC") {
			record = appendByteArray(nil, UnreadableCC, wireTable(name, unfit))
		}
		var death []byte
		if name == "x-death" {
			death = wireTable(UnreadableDeath, "V")
		}
		frame := stash(contentFrame(wireTable("a", unfit, name, unfit)))
		if !bytes.Equal(frame, contentFrame(append(appendByteArray(death, UnreadableHeaders, want), record...))) {
			t.Errorf("%s is stashed: %q", name, frame)
		}
		if frame := stash(contentFrame(wireTable(name, unfit))); !bytes.Equal(tableOf(t, frame), slices.Concat(death, record)) {
			t.Errorf("%s alone is stashed: %q", name, frame)
		}
		for what, stashed := range map[string][]byte{
			"unreadable": wireTable("a", unfit, name, unfit), "readable": wireTable("a", unfit, name, ofLength('S', []byte("victim"))),
			"after an unknown type": wireTable("a", unfit, "b", "Z??", name, unfit),
		} {
			back := restore(contentFrame(appendByteArray(nil, UnreadableHeaders, stashed)))
			if !bytes.Equal(tableOf(t, back), want) {
				t.Errorf("%s, %s, is restored: %q", name, what, tableOf(t, back))
			}
		}
		unknown := stash(contentFrame(wireTable("a", unfit, "b", "Z??", name, unfit)))
		if bytes.Contains(unknown, []byte(name)) || !bytes.Contains(unknown, wireTable(UnreadableDeath, "V")) {
			t.Errorf("%s is stashed after an unknown type: %q", name, unknown)
		}
	}
}

func TestHeadersSetSinceTakePrecedence(t *testing.T) {
	stashed := wireTable("a", "b\x01", "b", "b\x02")
	frame := contentFrame(appendByteArray(wireTable("a", "b\x03"), UnreadableHeaders, stashed))
	if got := tableOf(t, restore(frame)); !bytes.Equal(got, wireTable("a", "b\x03", "b", "b\x02")) {
		t.Errorf("got %q", got)
	}
}

// entries returns the encoded entries of a table, sorted.
func entries(table []byte) []string {
	var all []string
	end := eachEntry(table, func(e entry) { all = append(all, string(e.encoded)) })
	return slices.Sorted(slices.Values(append(all, string(end))))
}

// FuzzStash checks that the client receives only readable headers, that
// republishing restores the original ones except control headers, and that a second
// hop isVariable nothing.
func FuzzStash(f *testing.F) {
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
		changed := stash(contentFrame(table))
		if changed == nil {
			return
		}
		eachEntry(tableOf(t, changed), func(e entry) {
			if string(e.name) != UnreadableHeaders && !clientDecodes(e.name, e.kind, e.content) {
				t.Fatalf("not readable: %q", e.encoded)
			}
		})
		back := restore(changed)
		if back == nil {
			return // no UnreadableHeaders
		}
		got := tableOf(t, back)
		if all := entries(table); !slices.Equal(entries(got), all) && !slices.Equal(entries(got), entries(expected(table, tableOf(t, changed)))) {
			t.Fatalf("restored as %q", got)
		}
		before := slices.DeleteFunc(entries(tableOf(t, changed)), func(e string) bool { return e == string(wireTable(UnreadableDeath, "V")) })
		if again := stash(back); !slices.Equal(entries(tableOf(t, again)), before) {
			t.Fatalf("again: %q, before: %q", again, changed)
		}
	})
}

// expected returns the table without unreadable control headers and without an end
// that cannot be split into entries, with the UnreadableCC that the client
// received.
func expected(table, seen []byte) (rest []byte) {
	count, recorded := 0, false
	eachEntry(seen, func(e entry) {
		if string(e.name) == UnreadableCC {
			rest, recorded = append(rest, e.encoded...), true
		}
	})
	end := eachEntry(table, func(e entry) {
		if count++; recorded && string(e.name) == UnreadableCC {
			return
		}
		if !isControl(e.name) || clientDecodes(e.name, e.kind, e.content) && count < maxElements {
			rest = append(rest, e.encoded...)
		}
	})
	return append(rest, withoutControl(end)...)
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
	for name, look := range map[string]func([]byte) []byte{"in": stash, "out": restore} {
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

func TestCheckUnreadable(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for name, value := range map[string]any{
		"text": "text", "no table": []byte("nonsense"), "cut": deep(40)[:100],
		"malformed inside": wireTable("t", ofLength('F', []byte("\x01aS\x00\x00\x00\x09short"))),
	} {
		if err := CheckUnreadable(value); err == nil || !strings.Contains(err.Error(), UnreadableHeaders) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, value := range map[string][]byte{
		"nothing": {}, "deep": deep(5000), "wide": wireTable("t", ofLength('S', []byte(long))), "unknown type": wireTable("t", "Zzz"),
	} {
		if err := CheckUnreadable(value); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
