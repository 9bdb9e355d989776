package jsonappend

import (
	"encoding/base64"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// FuzzString: any bytes become a JSON string that encoding/json reads as the same text,
// with U+FFFD for each byte that is not UTF-8, and as long as it is without escapes.
func FuzzString(f *testing.F) {
	for _, text := range []string{
		"", "plain", "12345678", `1234567"`, `"12345678`, "\\\\\\\\\\\\\\\\", "\x00\x1f\x7f", "\n\r\t\b\f", "\xff\xfe1234567",
		"é12345678", "1234567é", "\u2028", "\U0001f3bb", "\xed\xa0\x80", strings.Repeat(`{"a":"b"},`, 9),
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		quoted := Quoted([]byte("before "), text)
		if string(quoted) != "before "+string(String(nil, string(text))) {
			t.Errorf("String gives %s, Quoted %s", String(nil, string(text)), quoted)
		}
		var read string
		if err := json.Unmarshal(quoted[len("before "):], &read); err != nil {
			t.Fatalf("%s: %v", quoted, err)
		}
		if want := strings.Map(func(r rune) rune { return r }, string(text)); read != want {
			t.Errorf("%q became %q", want, read)
		}
		if !utf8.Valid(quoted) {
			t.Errorf("%q is not UTF-8", quoted)
		}
	})
}

// SkipPlain stops at the same byte as a loop over single bytes, wherever in a word of
// eight bytes it is.
func TestSkipPlain(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		text := make([]byte, random.IntN(40))
		for i := range text {
			text[i] = byte(' ' + random.IntN(90))
			if random.IntN(20) == 0 {
				text[i] = byte(random.IntN(256))
			}
		}
		begin := random.IntN(len(text) + 1)
		want := begin
		for want < len(text) && isPlain(text[want]) {
			want++
		}
		if got := SkipPlain(text, begin); got != want {
			t.Fatalf("from %d of %q: stopped at %d, want %d", begin, text, got, want)
		}
	}
}

// Objects are valid JSON, and members without a value and objects without members
// leave no trace, not even a comma.
func TestObject(t *testing.T) {
	at := time.Date(2026, 5, 4, 3, 2, 1, 999_999_999, time.FixedZone("", 3600))
	for want, build := range map[string]func(*Object){
		`{}`:                                  func(*Object) {},
		`{"a":"x"}`:                           func(o *Object) { o.String("a", "x"); o.String("b", "") },
		`{"b":"x"}`:                           func(o *Object) { o.String("a", ""); o.String("b", "x") },
		`{"n":0}`:                             func(o *Object) { o.Positive("a", 0); o.Positive("b", -1); o.Int("n", 0) },
		`{"a":-9223372036854775808,"b":1}`:    func(o *Object) { o.Int("a", -1<<63); o.Positive("b", 1) },
		`{"t":"2026-05-04T02:02:01.999999Z"}`: func(o *Object) { o.Time("zero", time.Time{}); o.Time("t", at) },
		`{"a":"é","b64":"/w=="}`:              func(o *Object) { o.Exact("a", "é"); o.Exact("b", "\xff"); o.Exact("c", "") },
		`{"a\"b\\":1}`:                        func(o *Object) { o.AnyKey(`a"b\`); o.Dst = append(o.Dst, '1') },
		`{"a":{"b":1},"c":2}`:                 func(o *Object) { nested(o, "a", func() { o.Int("b", 1) }); o.Int("c", 2) },
		`{"a":1,"d":4}`:                       func(o *Object) { o.Int("a", 1); nested(o, "b", func() {}); o.Int("d", 4) },
		`{"d":5}`:                             func(o *Object) { nested(o, "b", func() { nested(o, "c", func() {}) }); o.Int("d", 5) },
		`{"a":{"b":{"c":1}},"d":{"e":"f"},"g":true}`: deep,
	} {
		o := Begin([]byte("before "))
		build(&o)
		got := string(o.End())
		if got != "before "+want || !json.Valid([]byte(want)) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func deep(o *Object) {
	nested(o, "a", func() { nested(o, "b", func() { o.Int("c", 1) }) })
	nested(o, "d", func() { nested(o, "none", func() {}); o.String("e", "f") })
	o.Key("g")
	o.Dst = append(o.Dst, "true"...)
}

func nested(o *Object, name string, members func()) {
	begun := o.Open(name)
	members()
	o.Close(begun)
}

// Times have the form that time.Format gives them, in every year with four digits.
func TestTime(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	first, last := time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC).Unix(), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).Unix()
	for range 10_000 {
		at := time.Unix(first+random.Int64N(last-first), random.Int64N(1e9))
		want := at.UTC().Format(`"2006-01-02T15:04:05.000000Z"`)
		if got := string(appendTime(nil, at)); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	}
}

func TestBase64(t *testing.T) {
	for size := range 10 {
		data := []byte("\x00\xff\x10abcdefg")[:size]
		var text string
		if err := json.Unmarshal(Base64(nil, data), &text); err != nil || text != base64.StdEncoding.EncodeToString(data) {
			t.Errorf("%x became %q, %v", data, text, err)
		}
	}
}
