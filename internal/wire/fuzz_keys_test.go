package wire

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
)

// FuzzStateKeys: any file gives keys that are long enough, that do not depend on
// its line ends, and that verify their own signatures, or an error that shows no
// part of the file.
func FuzzStateKeys(f *testing.F) {
	key := strings.Repeat("0123456789abcdef", 4)
	for _, text := range []string{
		key, key + "\n", key + "\r\nunsigned\r\n", "unsigned", "", "\n\n", "short", key + "\n\n" + key, " " + key + "\t\n" + strings.Repeat("\xff", 32),
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		keys, err := schemas.ParseStateKeys(text)
		if err != nil {
			if _, masked := schemas.ParseStateKeys(mask(text)); masked == nil || masked.Error() != err.Error() {
				t.Errorf("the error depends on what the file holds: %v", err)
			}
			return
		}
		if !keys.Signs() {
			t.Error("there is no key")
		}
		count := func(k schemas.StateKeys) int { return len(slices.Collect(k.MACs())) }
		text = bytes.ReplaceAll(bytes.TrimRight(text, "\r\n"), []byte("\n"), []byte("\r\n"))
		again, err := schemas.ParseStateKeys(text)
		if err != nil || count(again) != count(keys) || again.Unsigned() != keys.Unsigned() {
			t.Fatalf("with other ends of lines: %d keys, not %d, %v", count(again), count(keys), err)
		}
		e := schemas.Envelope{RoutingKey: "orders", Headers: amqp.Table{"tenant": "acme"}, Body: text}
		signing := Verifier{Keys: keys}
		signed := signing.Sign(schemas.Topology{}.Direct(), "orders", DefaultFrameMax.WrapForQueue(e, schemas.State{Fingerprint: e.Fingerprint(), Queue: "orders", Attempt: 1}, ""))
		v, err := (&Verifier{Keys: again}).Verify(returned(signed), schemas.Topology{}.Direct(), "orders")
		if err != nil || v.State.Attempt != 1 {
			t.Errorf("what was signed does not count: %+v, %v", v.State, err)
		}
		signed.Headers[headerAttempt] = int64(2)
		if v, err := (&Verifier{Keys: keys}).Verify(returned(signed), schemas.Topology{}.Direct(), "orders"); err != nil || v.State.Attempt != 0 {
			t.Errorf("what was changed counts: %+v, %v", v.State, err)
		}
	})
}

// mask returns a file with lines of the same lengths and without the keys.
func mask(text []byte) []byte {
	lines := bytes.Split(text, []byte("\n"))
	for i, line := range lines {
		if string(bytes.TrimSpace(line)) != "unsigned" {
			lines[i] = masked(line)
		}
	}
	return bytes.Join(lines, []byte("\n"))
}

func masked(line []byte) []byte {
	var text []byte
	for len(line) > 0 {
		r, size := utf8.DecodeRune(line)
		if unicode.IsSpace(r) {
			text = append(text, line[:size]...)
		} else {
			text = append(text, strings.Repeat("x", size)...)
		}
		line = line[size:]
	}
	return text
}
