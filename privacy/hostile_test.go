package privacy

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
)

// A publisher writes texts, so that the time is linear in them, whatever they have: a quadratic one of these takes seconds.
func TestTextsOfManyMarks(t *testing.T) {
	r := redactor(t, Config{Rules: allPatterns()})
	for _, mark := range []string{"@", "%40", "token ", "Bearer abcdefgh ", "a@b.de %40 "} {
		if got := r.Text(strings.Repeat(mark, (256<<10)/len(mark))); strings.Contains(got, "a@b") || strings.Contains(got, "abcdefgh") {
			t.Errorf("%q became %.80q", mark, got)
		}
	}
}

// What is hidden in a form that the rules have to decode, or must not believe.
func TestBodiesThatHideValues(t *testing.T) {
	var wide []byte
	for _, unit := range utf16.Encode([]rune("from ana@example.com")) {
		wide = append(wide, byte(unit), byte(unit>>8))
	}
	for name, test := range map[string]struct {
		body, contentType string
		rules             []Rule
	}{
		"escaped slashes":             {`{"url":"amqp:\/\/u:ana@host"}`, "application/json", allPatterns()},
		"a value of a header":         {`{"of":"C-4711 ana"}`, "application/json", []Rule{{Header: "x-customer"}}},
		"a value of a text":           {`of order.created, ana`, "text/plain", []Rule{{Text: "routing_key"}}},
		"ASCII that claims UTF-16":    {"from ana@example.com", "text/plain; charset=utf-16le", allPatterns()},
		"UTF-16 that claims nothing":  {string(wide), "text/plain", allPatterns()},
		"values that begin with same": {`{"a":"C-47","b":"C-4711","note":"of C-4711"}`, "application/json", []Rule{{JSON: "a"}, {JSON: "b"}}},
	} {
		e := order(test.body)
		e.Envelope.Properties.ContentType = test.contentType
		body := string(redactor(t, Config{Rules: test.rules}).Event(e).Envelope.Body)
		for _, secret := range []string{"ana@", "C-47", "order", "a\x00n\x00a", "_11"} {
			if strings.Contains(body, secret) {
				t.Errorf("%s: %q has %q", name, body, secret)
			}
		}
	}
}

// A message in the log that is no event may have anything in its body.
func TestBodyOfNoEvent(t *testing.T) {
	e := order("of C-4711")
	e = e.Unreadable("no event")
	e.Action, e.BodyIn = schemas.Quarantined, schemas.BodyHere
	if got := string(redactor(t, Config{Rules: []Rule{{Header: "other"}}}).Event(e).Envelope.Body); strings.Contains(got, "C-4711") {
		t.Errorf("%q", got)
	}
}

// An event without its body has the id of a stream that was made of the body.
func TestIDOfAStream(t *testing.T) {
	r := redactor(t, Config{Rules: []Rule{{JSON: "customer"}, {Text: "stream", As: "stream"}}})
	whole := order(`{"customer":"C-4711"}`)
	whole.Stream.ID = "customer-C-4711"
	bodiless := whole
	bodiless.Envelope.Body, bodiless.BodyIn = nil, schemas.BodyInPublished
	want := r.hash("stream", "customer-C-4711")
	if a, b := r.Event(whole).Stream.ID, r.Event(bodiless).Stream.ID; a != want || b != want {
		t.Errorf("%q and %q, want %q", a, b, want)
	}
}

// A body with more values than other texts are searched for is hidden, and so are these.
func TestManyValues(t *testing.T) {
	var list []string
	for i := range mostElsewhere + 1 {
		list = append(list, fmt.Sprintf(`"C-%d"`, 100_000+i))
	}
	e := order(`{"ids":[` + strings.Join(list, ",") + `]}`)
	e.Failure.Message = "no customer C-100000"
	var ids []any
	for i := range mostElsewhere + 1 {
		ids = append(ids, fmt.Sprintf("C-%d", 100_000+i))
	}
	text := order("C-100000, and others")
	text.Failure, text.Envelope.Headers["ids"] = e.Failure, ids
	for _, e := range []schemas.Event{redactor(t, Config{Rules: []Rule{{JSON: "ids"}}}).Event(e), redactor(t, Config{Rules: []Rule{{Header: "ids"}}}).Event(text)} {
		if body := string(e.Envelope.Body); !strings.HasPrefix(body, "dropped_") || strings.Contains(e.Failure.Message, "C-") {
			t.Errorf("%.80q, %q", body, e.Failure.Message)
		}
	}
}

// A rule about errors is about the groups that handlers name, too, and about the error of a refused event.
func TestGroupsOfReplacedErrors(t *testing.T) {
	e := order("")
	e.Failure = schemas.Failure{Message: "no Ada", Group: "of Ada", Stack: "at Ada"}
	for _, e := range []schemas.Event{e, e.Quarantine("refused")} {
		e = redactor(t, Config{Rules: []Rule{{Text: "error"}, {Text: "stack"}}}).Event(e)
		if document := string(schemas.DocumentFormat{}.Append(nil, e)); strings.Contains(document, "Ada") {
			t.Error(document)
		}
	}
}

// What rules look for is in values of any type.
func TestTypesOfHeaders(t *testing.T) {
	r := redactor(t, Config{Rules: []Rule{{Header: "x-customer"}, {Pattern: "card"}}})
	e := order("")
	e.Envelope.Headers["float"], e.Envelope.Headers["bytes"] = float64(4111111111111111), []byte("C-4711\xff")
	headers := r.Event(e).Envelope.Headers
	if headers["float"] != r.hash("card", "4111111111111111") || headers["bytes"] != r.hash("dropped", "C-4711\xff") {
		t.Errorf("%v", headers)
	}
	onlyHeader := redactor(t, Config{Rules: []Rule{{Header: "x-customer"}}})
	if got := onlyHeader.Event(e).Envelope.Headers["bytes"]; got != r.hash("dropped", "C-4711\xff") {
		t.Errorf("%q", got)
	}
}

func TestCredentials(t *testing.T) {
	r := redactor(t, Config{Rules: []Rule{{Pattern: "token"}}})
	for _, text := range []string{
		"Pwd=hunter22", "PassWord: hunter22", "BeArEr hunter22", "secret_key=hunter22", "access_key=hunter22",
		"aws_secret_access_key=hunter22", "X-Token: Bearer hunter22", "password=eyJhunter22.abcdefgh.x",
	} {
		if got := r.Text(text); strings.Contains(got, "hunter") {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// An expression that matches nothing in a place still finds what comes later.
func TestExpressionThatMatchesNothing(t *testing.T) {
	r := redactor(t, Config{Rules: []Rule{{Pattern: `\b(?:C-\d+)?`}}})
	if got := r.Text("of C-4711, and C-4712"); strings.Contains(got, "C-47") {
		t.Errorf("%q", got)
	}
}

// A value has one hash wherever it stands: what one rule has made is no text for another one.
func TestHashesAreNotSearched(t *testing.T) {
	rules := []Rule{{Header: "x-customer", As: "customer"}, {Header: "X-Customer", As: "other"}, {Header: "x-word"}, {JSON: "customer", As: "customer"}, {Pattern: `\d{3,}`}, {Pattern: `[a-f]{3,}`}}
	r := redactor(t, Config{Rules: rules})
	for i := range 50 {
		customer := fmt.Sprintf("Xyz-%d", i)
		hash := r.hash("customer", customer)
		e := order(`{"customer":"` + customer + `","note":"of ` + customer + `, \"X` + customer + `\""}`)
		e.Envelope.Headers = amqp.Table{"x-customer": customer, "x-word": "customer"}
		e.Failure.Message = "no " + customer
		e = r.Event(e)
		if want := `{"` + r.hash("value", "customer") + `":"` + hash + `","note":"of ` + hash + `, \"X` + hash + `\""}`; string(e.Envelope.Body) != want {
			t.Fatalf("the body is %s, want %s", e.Envelope.Body, want)
		}
		if e.Envelope.Headers["x-customer"] != hash || e.Failure.Message != "no "+hash {
			t.Fatalf("%v, %q, want %s", e.Envelope.Headers, e.Failure.Message, hash)
		}
	}
	if text := r.Text("order_12345678901234567890"); text != "order_"+r.hash("value", "12345678901234567890") {
		t.Errorf("%q, which has no hash", text)
	}
	if text := r.Text("customer 0123456789 abc"); text != "customer "+r.hash("value", "0123456789")+" "+r.hash("value", "abc") {
		t.Errorf("%q", text)
	}
}

// Where a hash is a part of what a pattern finds, the rest does not stay.
func TestValuesAroundHashes(t *testing.T) {
	r := redactor(t, Config{Rules: append(allPatterns(), Rule{Header: "x-customer", As: "customer"}, Rule{Pattern: `\b[A-Z]\w{4,12}`})})
	for _, text := range []string{"password=ana@example.com!hunter", "amqp://hunter:C-4711@host", "Bearer C-4711.hunter.xyz", "Ahunter4711 Hunter_C-4711"} {
		e := order("")
		e.Failure.Message = text
		e = r.Event(e)
		if strings.Contains(strings.ToLower(e.Failure.Message), "hunter") {
			t.Errorf("%q became %q", text, e.Failure.Message)
		}
		if again := r.Event(e).Failure.Message; again != e.Failure.Message {
			t.Errorf("%q became %q", e.Failure.Message, again)
		}
	}
}

// What a rule has found is known before patterns change the texts that quote it.
func TestValuesAreKnownBeforePatterns(t *testing.T) {
	r := redactor(t, Config{Rules: []Rule{{Pattern: "mail"}, {Header: "x-from", As: "from"}}})
	e := order(`{"note":"from Ada <ada@example.com>"}`)
	e.Envelope.Headers["x-from"] = "Ada <ada@example.com>"
	if body, want := string(r.Event(e).Envelope.Body), `{"note":"from `+r.hash("from", "Ada <ada@example.com>")+`"}`; body != want {
		t.Errorf("the body is %s, want %s", body, want)
	}
}

// An indexer redacts some events twice: once more changes nothing.
func TestRedactingTwice(t *testing.T) {
	rules := append(allPatterns(), Rule{JSON: "customer"}, Rule{Header: "x-customer", As: "customer"}, Rule{Text: "message_id"}, Rule{Text: "error"})
	r := redactor(t, Config{Rules: rules})
	for _, body := range []string{`{"customer":"C-4711","note":"Bearer abcdefghijk, password=hunter22"}`, "no JSON"} {
		e := order(body)
		e.Failure.Message, e.Failure.Stack = "password=hunter22 "+strings.Repeat("a word ", 200), strings.Repeat("a word ", 2000)
		once := r.Event(e)
		if twice := r.Event(once); !bytes.Equal(once.Envelope.Body, twice.Envelope.Body) || once.Failure != twice.Failure ||
			once.Envelope.Headers["x-customer"] != twice.Envelope.Headers["x-customer"] || once.Envelope.Properties != twice.Envelope.Properties {
			t.Errorf("%s became %s", once.Envelope.Body, twice.Envelope.Body)
		}
	}
	// A value that only looks like a hash is none.
	e := order("")
	e.Envelope.Headers = amqp.Table{"x-customer": "user_0123456789abcdef0123"}
	if got := r.Event(e).Envelope.Headers["x-customer"]; got == "user_0123456789abcdef0123" {
		t.Errorf("%v", got)
	}
}

// An imported or rewritten event was redacted by other rules, which does not keep today's from it.
func TestRedactingByOtherRules(t *testing.T) {
	keys, err := ParseKeys([]byte("a " + hex.EncodeToString(testKey)))
	if err != nil {
		t.Fatal(err)
	}
	former := redactor(t, Config{Rules: []Rule{{Header: "x-customer"}, {Text: "routing_key"}}, Originals: keys})
	today := redactor(t, Config{Rules: []Rule{{Pattern: "mail"}, {Key: "order.*", JSON: "name"}}, Originals: keys})
	e := order(`{"name":"Ada","note":"of ana@example.com"}`)
	e.Failure.Message = "no ana@example.com"
	stored := former.Event(e)
	again, err := schemas.ParseDocument(schemas.DocumentFormat{Redact: today.Event}.Append(nil, stored))
	if want := `{"name":"` + today.hash("value", "Ada") + `","note":"of ` + today.hash("mail", "ana@example.com") + `"}`; err != nil || string(again.Envelope.Body) != want {
		t.Errorf("%s, %v, want %s", again.Envelope.Body, err, want)
	}
	if strings.Contains(again.Failure.Message, "ana") || again.Envelope.Headers["x-customer"] != former.hash("value", "C-4711") {
		t.Errorf("%q, %v", again.Failure.Message, again.Envelope.Headers)
	}
	if !again.Redacted || !again.Envelope.Redacted || today.Open(t.Context(), &again) != nil || !bytes.Equal(again.Envelope.Body, e.Envelope.Body) {
		t.Errorf("its original is %s", again.Envelope.Body)
	}
	texts := e
	texts.Envelope.Body, texts.Envelope.RoutingKey, texts.BodyIn = nil, "invoice", schemas.BodyInPublished
	texts = today.Event(texts)
	if texts = former.Event(texts); !texts.Redacted || !texts.Envelope.Redacted {
		t.Errorf("%+v", texts)
	}
	texts.Envelope.Redacted = false
	if texts = today.Event(texts); !texts.Redacted {
		t.Error("what changes nothing takes the mark")
	}
}

func TestRulesThatNeverApply(t *testing.T) {
	for _, path := range []string{"$.customer", "lines[0].note", "$"} {
		if err := (Rule{JSON: path}).Check(); err == nil {
			t.Errorf("%q is accepted", path)
		}
	}
}

type otherKeys struct{ id, key string }

func (k otherKeys) Newest() (string, []byte, error) { return k.id, []byte(k.key), nil }
func (k otherKeys) Key(string) ([]byte, error)      { return []byte(k.key), nil }

func TestKeysOfOtherSizes(t *testing.T) {
	if _, err := New(Config{Rules: allPatterns(), HashKeys: [][]byte{[]byte("short")}}); err == nil {
		t.Error("a short key makes hashes")
	}
	e := order("ana@example.com")
	long := hex.EncodeToString(testKey)[:keySize]
	for _, keys := range []otherKeys{{"a", "short"}, {"", long}, {strings.Repeat("a", 256), long}} {
		if _, err := New(Config{Rules: allPatterns(), HashKeys: [][]byte{testKey}, Originals: keys}); err == nil {
			t.Errorf("%.10q, %q can be used", keys.id, keys.key)
		}
		var log bytes.Buffer
		later := otherKeys{"a", long}
		r := redactor(t, Config{Rules: allPatterns(), Originals: &later, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		later = keys
		if got := r.Event(e); len(got.Sealed) > 0 || !got.Envelope.Redacted || !strings.Contains(log.String(), "fingerprint="+e.Fingerprint) {
			t.Errorf("%.10q, %q: %d bytes, %s", keys.id, keys.key, len(got.Sealed), &log)
		}
	}
	if !slices.Contains(Texts(), "stream") {
		t.Error("no rule is about the ids of streams")
	}
}
