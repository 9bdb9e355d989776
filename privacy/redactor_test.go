package privacy

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
)

var testKey = bytes.Repeat([]byte{7}, keySize)

func redactor(t testing.TB, cfg Config) *Redactor {
	t.Helper()
	cfg.HashKeys = append(cfg.HashKeys, testKey)
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func allPatterns() (rules []Rule) {
	for _, name := range Patterns() {
		rules = append(rules, Rule{Pattern: name})
	}
	return rules
}

// secrets are values in the forms of the patterns, and texts that only look like them.
var secrets = []string{
	"ana@example.com", "Ana.Müller+shop@mail.example.co.uk", "4111 1111 1111 1111", "378282246310005", "5555-5555-5555-4444",
	"DE89 3704 0044 0532 0130 00", "GB82WEST12345698765432", "AKIAIOSFODNN7EXAMPLE", "ghp_0123456789abcdefghijABCDEFGHIJ012345",
	"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
}

func TestPatterns(t *testing.T) {
	r := redactor(t, Config{Rules: allPatterns()})
	for _, secret := range secrets {
		for _, text := range []string{secret, "(" + secret + ")", "customer: " + secret + ", refused", `{"a":"` + secret + `"}`, secret + "\n" + secret} {
			if got := r.Text(text); strings.Contains(got, secret) || strings.Contains(got, secret[4:]) {
				t.Errorf("%q became %q", text, got)
			}
		}
		if again := r.Text(r.Text(secret)); again != r.Text(secret) {
			t.Errorf("%q became %q, and then %q", secret, r.Text(secret), again)
		}
	}
	for _, text := range []string{
		"", "x", "/go/pkg/mod/github.com/x/y@v1.2.3/z.go:17", "1764480000000000", "4111111111111112", "DE89 1704 0044 0532 0130 00", "order 4711 at 12:30",
		"2026-05-04T03:02:01.123456789Z", "v1:0123456789012345678901234567890123456789012345678901234567890123", "team@", "@alice", "a token expired",
	} {
		if got := r.Text(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	for text, want := range map[string]string{
		"GET /?mail=Ana%40example.com&x=1":        "GET /?mail=" + r.hash("mail", "ana@example.com") + "&x=1",
		"Authorization: Bearer abc.def-ghi_j":     "Authorization: Bearer " + r.hash("token", "abc.def-ghi_j"),
		"dial amqp://u:pa55@host/: refused":       "dial amqp://" + r.hash("token", "u:pa55") + "@host/: refused",
		"password=hunter22&x":                     "password=" + r.hash("token", "hunter22") + "&x",
		"4111111111111111":                        r.hash("card", "4111111111111111"),
		"4111 1111-1111 1111":                     r.hash("card", "4111111111111111"),
		"de89370400440532013000":                  r.hash("iban", "DE89370400440532013000"),
		"DE71370400440000000140 Bearer planted.1": r.hash("iban", "DE71370400440000000140") + " Bearer " + r.hash("token", "planted.1"), // with the word, the check digits are right, too
		"BR15 0000 0000 0000 1093 2840 814 P2":    r.hash("iban", "BR1500000000000010932840814P2"),
	} {
		if got := r.Text(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

func order(body string) schemas.Event {
	e := schemas.Event{Action: schemas.Poisoned, Sequence: 1, BodySize: len(body), Envelope: schemas.Envelope{
		Exchange: "shop", RoutingKey: "order.created", Body: []byte(body), Headers: amqp.Table{"x-customer": "C-4711", "n": int64(3)},
		Properties: schemas.Properties{MessageID: "m-1", ContentType: "application/json; charset=utf-8"},
	}}
	e.Fingerprint, e.EventID, e.Time = e.Envelope.Fingerprint(), "event", time.Unix(1, 0).UTC()
	return e
}

// Rules name values in bodies, headers and texts, and what quotes them loses them as well.
func TestRules(t *testing.T) {
	r := redactor(t, Config{Rules: []Rule{
		{JSON: "customer.email", As: "mail"},
		{JSON: "lines.*.note"},
		{Header: "X-Customer", As: "customer"},
		{Text: "message_id", As: "id"},
		{Pattern: `\bSSN-(\d{4})\b`, As: "ssn"},
		{Exchange: "other", JSON: "total"},
		{Key: "other.#", Pattern: "mail"},
	}})
	e := order(`{ "customer": {"email":"an\u0061@x", "name": "Ada"}, "lines": [{"a": {"note": 17}}, {"b": {"note": null}}], "total": 5.0, "SSN-1234": ["SSN-9999"], "note": "of C-4711 and ana@x" }`)
	e.Failure = schemas.Failure{Message: `no customer C-4711 with ana@x`, Stack: "at SSN-1234"}
	before := e.Envelope.Clone()
	got := r.Event(e)
	want := `{ "customer": {"email":"` + r.hash("mail", "ana@x") + `", "name": "Ada"}, "lines": [{"a": {"note": "` + r.hash("value", "17") + `"}}, {"b": {"note": null}}], "total": 5.0, "SSN-` +
		r.hash("ssn", "1234") + `": ["SSN-` + r.hash("ssn", "9999") + `"], "note": "of ` + r.hash("customer", "C-4711") + ` and ` + r.hash("mail", "ana@x") + `" }`
	if string(got.Envelope.Body) != want {
		t.Errorf("the body is\n%s, want\n%s", got.Envelope.Body, want)
	}
	customer := r.hash("customer", "C-4711")
	if got.Envelope.Headers["x-customer"] != customer || got.Failure.Message != "no customer "+customer+" with "+r.hash("mail", "ana@x") || got.Failure.Stack != "at SSN-"+r.hash("ssn", "1234") {
		t.Errorf("%v, %q, %q", got.Envelope.Headers, got.Failure.Message, got.Failure.Stack)
	}
	if got.Envelope.Properties.MessageID != r.hash("id", "m-1") || !got.Redacted || !got.Envelope.Redacted {
		t.Errorf("%+v", got)
	}
	if diff := cmp.Diff(before, e.Envelope); diff != "" {
		t.Errorf("the message itself changed: %s", diff)
	}
	if hashes := r.Hashes("C-4711"); !slices.Contains(hashes, customer) {
		t.Errorf("%q does not have %q", hashes, customer)
	}
}

// Failures of one kind stay one group, whoever they are about.
func TestGroupsOfErrors(t *testing.T) {
	r := redactor(t, Config{Rules: allPatterns()})
	groups := map[string]bool{}
	for _, name := range []string{"ana", "bob", "eve", "joe", "max", "zoe"} {
		e := order("")
		e.Failure.Message = "cannot charge " + name + "@example.com: the card 4111111111111111 has expired"
		e = r.Event(e)
		groups[e.ErrorGroup()] = true
	}
	if len(groups) != 1 {
		t.Errorf("%d groups: %v", len(groups), groups)
	}
}

// What cannot be examined is hidden, unless the configuration lets it through.
func TestUnknownBodies(t *testing.T) {
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, _ = w.Write([]byte(`{"mail":"ana@example.com"}`))
	_ = w.Close()
	for name, test := range map[string]struct {
		body, encoding string
		rule           Rule
		hidden         bool
	}{
		"binary":           {"\xff\xfeana@example.com\x00\x01\x02", "", Rule{Pattern: "mail"}, true},
		"no JSON":          {"name=ana@x", "", Rule{JSON: "mail"}, true},
		"JSON with a rest": {`{"mail":"a"} x`, "", Rule{JSON: "mail"}, true},
		"too long":         {strings.Repeat("a", maxBody+1), "", Rule{Pattern: "mail"}, true},
		"compressed":       {zipped.String(), "gzip", Rule{JSON: "mail"}, false},
		"text":             {"by ana@example.com", "", Rule{Pattern: "mail"}, false},
	} {
		for _, keep := range []bool{false, true} {
			e := order(test.body)
			e.Envelope.Properties.ContentEncoding = test.encoding
			got := redactor(t, Config{Rules: []Rule{test.rule}, KeepUnknown: keep}).Event(e)
			switch body := string(got.Envelope.Body); {
			case test.hidden && keep:
				if body != test.body || got.Redacted {
					t.Errorf("%s: kept, it is %.40q", name, body)
				}
			case test.hidden != strings.HasPrefix(body, "dropped_") || strings.Contains(body, "ana"):
				t.Errorf("%s: it is %.40q", name, body)
			}
		}
	}
}

// An original opens byte for byte, by former keys as well, and in its own document alone.
func TestOriginals(t *testing.T) {
	keysOf := func(names ...string) Keys {
		var text string
		for _, name := range names {
			text += name + " " + hex.EncodeToString(bytes.Repeat([]byte(name[:1]), keySize)) + "\n"
		}
		keys, err := ParseKeys([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return keys
	}
	e := order("{\"mail\":\"ana@example.com\",\r\n \"n\": 1.50}")
	e.Envelope.Headers["when"], e.Envelope.Headers["list"] = time.Unix(17, 0), []any{int8(1), amqp.Table{"b": []byte{0xff}}}
	sealed := redactor(t, Config{Rules: allPatterns(), Originals: keysOf("a1")}).Event(e)
	stored, err := schemas.ParseDocument(schemas.DocumentFormat{}.Append(nil, sealed))
	if err != nil || !stored.Envelope.Redacted || bytes.Contains(stored.Envelope.Body, []byte("ana")) || bytes.Contains(stored.Sealed, []byte("ana")) {
		t.Fatalf("%+v, %v", stored, err)
	}
	rotated := redactor(t, Config{Rules: allPatterns(), Originals: keysOf("b2", "a1")})
	opened := stored
	if err := rotated.Open(t.Context(), &opened); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(e.Envelope, opened.Envelope); diff != "" {
		t.Errorf("the original has changed: %s", diff)
	}
	for name, r := range map[string]*Redactor{
		"without keys": redactor(t, Config{Rules: allPatterns()}), "with another key": redactor(t, Config{Rules: allPatterns(), Originals: keysOf("b2")}),
		"with another key of the name": redactor(t, Config{Rules: allPatterns(), Originals: fileKeys{{"a1", testKey}}}), "nil": nil,
	} {
		refused, redacted := stored, new(RedactedError)
		if err := r.Open(t.Context(), &refused); !errors.As(err, &redacted) || !refused.Envelope.Redacted {
			t.Errorf("%s: %v", name, err)
		}
	}
	moved := stored
	moved.Fingerprint = "v1:other"
	if err := rotated.Open(t.Context(), &moved); err == nil {
		t.Error("it opens in the document of another message")
	}
	again := rotated.Event(func() schemas.Event { e := stored; e.Redacted = false; return e }())
	if len(again.Sealed) > 0 && !bytes.Equal(again.Sealed, stored.Sealed) {
		t.Error("a redacted copy was sealed as an original")
	}
}

func TestKeysThatCannotBeRead(t *testing.T) {
	digits := strings.Repeat("0a", keySize)
	for _, text := range []string{"", "a", "a 00", digits, "a " + digits + "\na " + digits, "a b " + digits} {
		if keys, err := ParseKeys([]byte(text)); err == nil {
			t.Errorf("%q: %v", text, keys)
		}
	}
	for _, text := range []string{"", "00", "a " + digits} {
		if keys, err := ParseHashKeys([]byte(text)); err == nil {
			t.Errorf("%q: %v", text, keys)
		}
	}
	if _, err := New(Config{Rules: allPatterns()}); err == nil {
		t.Error("rules without a key are possible")
	}
}

func TestLogger(t *testing.T) {
	var out bytes.Buffer
	log := redactor(t, Config{Rules: allPatterns()}).Logger(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	for _, secret := range secrets {
		log.With("a", secret).WithGroup("g").Debug("of "+secret, "b", errors.New(secret), "c", []string{secret}, slog.Group("d", "e", secret))
	}
	for _, secret := range secrets {
		if strings.Contains(out.String(), secret) {
			t.Errorf("the log has %s", secret)
		}
	}
	if lines := strings.Count(out.String(), "level=DEBUG"); lines != len(secrets) {
		t.Errorf("it has %d lines", lines)
	}
}

// A text that was cut, by whatever limit, ends with no part of a value.
func TestTextsThatWereCut(t *testing.T) {
	for _, rules := range [][]Rule{allPatterns(), {{Header: "x-customer"}}} {
		for _, text := range []string{strings.Repeat("x ", 505) + "ana@exam…", "by ana@exam…", "card 4111 1111 1111 11…", "of C-47…", "ana" + strings.Repeat("é", 200) + "…"} {
			e := order("")
			e.Failure = schemas.Failure{Message: text, Stack: text, Group: text}
			e.Envelope.Body, e.Answer, e.Audit.Object = nil, text, text
			once := redactor(t, Config{Rules: rules}).Event(e)
			for _, got := range []string{once.Failure.Message, once.Failure.Stack, once.Failure.Group, once.Answer, once.Audit.Object} {
				if strings.Contains(got, "ana@") || strings.Contains(got, "4111") || strings.Contains(got, "C-4") || !strings.HasSuffix(got, "…") || !utf8.ValidString(got) {
					t.Errorf("%q became %q", text, got)
				}
			}
			if !once.Redacted {
				t.Errorf("%q lost its end without a mark", text)
			}
		}
	}
}

func FuzzJSON(f *testing.F) {
	f.Add(`{"a": [1, "ana@example.com", {"b": "\u0061na@example.com"}], "c": 4111111111111111}`)
	f.Add(`["\\", "\"", {"a": {"b": null}}, true, -1.5e3]`)
	f.Add(`{"a": {"b": "token"}, "c": "password=token!ana@example.com"}`)
	r := redactor(f, Config{Rules: append(allPatterns(), Rule{JSON: "a.b"})})
	f.Fuzz(func(t *testing.T, body string) {
		got := string(r.Event(order(body)).Envelope.Body)
		if text := decoded([]byte(got)); strings.Contains(text, "ana@example.com") || json.Valid([]byte(body)) && !json.Valid([]byte(got)) && !strings.HasPrefix(got, "dropped_") {
			t.Errorf("%q became %q", body, got)
		}
	})
}

// decoded returns the strings and numbers of JSON, one a line, or what is no JSON as it is.
func decoded(body []byte) string {
	if !json.Valid(body) {
		return string(body)
	}
	var b strings.Builder
	for d := json.NewDecoder(bytes.NewReader(body)); ; {
		token, err := d.Token()
		if err != nil {
			return b.String()
		}
		fmt.Fprintln(&b, token)
	}
}

func BenchmarkDocument(b *testing.B) {
	e := order(`{"customer":{"name":"Ada","email":"ada@example.com","phone":"+49 30 1234567"},"lines":[{"sku":"violin-4","n":1,"price":1200.5},{"sku":"bow","n":2,"price":80}],"card":"4111111111111111","note":"` +
		strings.Repeat("a note of some length ", 40) + `"}`)
	keys, _ := ParseKeys([]byte("a " + strings.Repeat("0a", keySize)))
	for _, c := range []struct {
		name string
		cfg  *Config
	}{
		{"no rules", nil},
		{"other exchange", &Config{Rules: []Rule{{Exchange: "other", Pattern: "mail"}}}},
		{"a member", &Config{Rules: []Rule{{JSON: "customer.email"}}}},
		{"patterns", &Config{Rules: allPatterns()}},
		{"patterns sealed", &Config{Rules: allPatterns(), Originals: keys}},
	} {
		b.Run(c.name, func(b *testing.B) {
			format := schemas.DocumentFormat{}
			if c.cfg != nil {
				format.Redact = redactor(b, *c.cfg).Event
			}
			var room []byte
			b.ReportAllocs()
			for b.Loop() {
				room = format.Append(room[:0], e)
			}
		})
	}
}
