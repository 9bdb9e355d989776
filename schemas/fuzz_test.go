package schemas_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/watershipmq/watership/internal/wire/wiretest"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/schemas/tablejson"
)

// FuzzTable: any table is unchanged after a document.
func FuzzTable(f *testing.F) {
	for kind := range byte(20) {
		f.Add([]byte{1, kind, 3, 'k', 'e', 'y', 0xff, 0xc0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9})
	}
	f.Add([]byte{3, 16, 0, 2, 17, 1, '.', 3, 2, 0, 4, 14, 2, 'a', 'b', 5, 0xff, 0xfe, 'x'})
	f.Fuzz(func(t *testing.T, data []byte) {
		want := (&wiretest.TableMaker{Data: data}).Table(0)
		got, err := tablejson.Parse(tablejson.Append(nil, want))
		if err != nil {
			t.Fatalf("%#v: %v", want, err)
		}
		if diff := cmp.Diff(want, got, wiretest.Bitwise(), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("a table changed on its way through JSON (-want +got):\n%s", diff)
		}
		event := wiretest.FailedEvent(nil)
		event.Envelope.Headers = want
		if parsed := wiretest.ThroughDocument(t, event); parsed.Envelope.Fingerprint() != event.Envelope.Fingerprint() {
			t.Errorf("%#v has another fingerprint after its document", want)
		}
	})
}

// FuzzBody: any bytes are unchanged after a document, whose syntax Elasticsearch
// accepts.
func FuzzBody(f *testing.F) {
	for _, body := range []string{
		"", "text", `{"a":1}`, `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `{"\u0000":1}`, "{\n\"a\" :\r[1, -0.5e+3,null]}\t", "\xff", "\u2028é",
		`{"\ud800":"\udfff"}`, `{"":{".":[[{}],true]}}`, `{"a":01}`, `{"a":1,}`, `{,}`, `[1]`, `{"a":"\x"}`, `{"a":"` + "\x01" + `"}`, `{"a"`, `{"a":tru}`, `{} {}`, "\x00",
		`{"12345678\"":"1234567\\","é12345678":"12345678"}`,
		`{"a":{"a":1,"b":{"a":1}},"b":1}`, `{"a":{"b":1},"a":1}`, `{"\u0061":1,"a":2}`, `{"\u0061":1,"\u0061":2}`, `{"a":{"b":1,"c":1,"b":1}}`,
		`{"!":1,"b":{"a":1},"a":2}`, `{"a":1,"b":{"!":1,"a":2}}`, `{"!":1,"a":2}`, // ! and a have the same mark
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		event := wiretest.FailedEvent(body)
		if parsed := wiretest.ThroughDocument(t, event); !bytes.Equal(parsed.Envelope.Body, body) {
			t.Errorf("body %q came back as %q", body, parsed.Envelope.Body)
		}
	})
}

// FuzzParseDocument: any bytes are an event or an error that says why not.
func FuzzParseDocument(f *testing.F) {
	f.Add(schemas.DocumentFormat{}.Append(nil, wiretest.GoldenEvent()))
	f.Add(schemas.DocumentFormat{}.Append(nil, wiretest.FailedEvent([]byte{0xff})))
	for _, source := range []string{"", "{", "null", "[]", `{"watership":{"version":2}}`, `{"watership":{"version":1},"body":{"raw":"?"}}`} {
		f.Add([]byte(source))
	}
	f.Fuzz(func(t *testing.T, source []byte) {
		event, err := schemas.ParseDocument(source)
		if err != nil {
			if err.Error() == "" {
				t.Error("an error without words")
			}
			return
		}
		again, err := schemas.ParseDocument(schemas.DocumentFormat{}.Append(nil, event))
		if err != nil {
			t.Fatalf("what was read cannot be written and read: %v", err)
		}
		if diff := cmp.Diff(event.Envelope, again.Envelope, wiretest.Bitwise(), cmpopts.EquateEmpty()); diff != "" && event.BodyIn == schemas.BodyHere {
			t.Errorf("an envelope changed on its way through its document (-want +got):\n%s", diff)
		}
	})
}
