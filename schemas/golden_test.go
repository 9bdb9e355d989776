package schemas_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/internal/wire/wiretest"
	"github.com/watershipmq/watership/schemas"
)

// These values identify messages that are in stores and on the wire. They never
// change; a change of the encoding needs a new version.
func TestGoldenFingerprints(t *testing.T) {
	want := map[string]string{
		"nothing at all":         "v1:8186b22817748a11b06758389bdf4adc1bd3cf14a12e9ff39911820838c16e6f",
		"an order":               "v1:2c3e2c3f88073bf38cfdb611b0bce855cac86e047eeecb2ee57083b67f08d401",
		"everything":             "v1:b4460c9f07a5f63a253162b5e1c7fc7aa416d6f3b2165ac4880ba8f28ebe94d8",
		"broker's time":          "v1:2c3e2c3f88073bf38cfdb611b0bce855cac86e047eeecb2ee57083b67f08d401", // same as without it
		"int32 and int64 differ": "v1:d004957a9fce507a2b937a50d5ff82f342bb4509305bbc9aa5db3725a0acf3f7",
		"a body of one space":    "v1:f8c300768dec7e81fa8a55d7902812aaca98b603f9ab5252871302342755ea19",
	}
	for name, e := range wiretest.GoldenEnvelopes() {
		if got := e.Fingerprint(); got != want[name] {
			t.Errorf("%s: got %s, want %s", name, got, want[name])
		}
	}
}

func TestGoldenEventIDs(t *testing.T) {
	order := wiretest.GoldenEnvelopes()["an order"]
	anonymous := order
	anonymous.Properties.MessageID = ""
	replayed := order
	replayed.Headers = wire.DefaultFrameMax.WrapForExchange(order, schemas.State{Fingerprint: order.Fingerprint(), Replay: "job-1", ReplayOf: "01A"}, "").Headers
	const id = "rabbit@shop/:v1:2c3e2c3f88073bf38cfdb611b0bce855cac86e047eeecb2ee57083b67f08d401"
	const anonymousID = "rabbit@shop/:v1:83ecb52ac129d60a766447f3727cea5f185092679a1655e08ae4836e5644a805:1700000000000000"
	for name, test := range map[string]struct {
		e    schemas.Envelope
		want string
	}{
		"with a message id": {order, id},
		"without one":       {anonymous, anonymousID},
		"replayed":          {replayed, id + ":job-1"},
	} {
		event := wire.Decoder{Source: "rabbit@shop/"}.Tapped(wiretest.Delivery(test.e), time.Unix(1700000000, 0), 1700000000000000)
		if event.EventID != test.want {
			t.Errorf("%s: got %s, want %s", name, event.EventID, test.want)
		}
	}
	moved := wire.Decoder{Source: "rabbit@shop/"}.Tapped(wiretest.Delivery(anonymous), time.Unix(1700000000, 0), 1699999999999999).WithSequence(1700000000000000)
	if want := anonymousID; moved.EventID != want || moved.Sequence != 1700000000000000 {
		t.Errorf("in another place: got %s at %d, want %s", moved.EventID, moved.Sequence, want)
	}
	second := wire.Decoder{Source: "rabbit@shop/"}.Tapped(wiretest.Delivery(order), time.Unix(1700000000, 0), 1700000000000000).WithUniqueID()
	if want := id + ":1700000000000000"; second.EventID != want || second.IDFromContent() {
		t.Errorf("a second, equal message: got %s, want %s", second.EventID, want)
	}
}

// testdata/document.json is an example of a document, for readers as well.
func TestGoldenDocument(t *testing.T) {
	const file = "testdata/document.json"
	format := schemas.DocumentFormat{Labels: []string{"tenant", "a.b"}, NumericLabels: []string{"attempt"}}
	var got bytes.Buffer
	if err := json.Indent(&got, format.Append(nil, wiretest.GoldenEvent()), "", "  "); err != nil {
		t.Fatal(err)
	}
	got.WriteByte('\n')
	if os.Getenv("WATERSHIP_TEST_UPDATE") == "1" {
		if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("the document is not as in %s: a change of it needs a new DocumentVersion (WATERSHIP_TEST_UPDATE=1 writes it):\n%s", file, got.Bytes())
	}
}

// An id of another event may have the greatest length that Elasticsearch accepts.
func TestGoldenDerivedIDs(t *testing.T) {
	longest := strings.Repeat("x", 512)
	for _, test := range []struct{ of, want string }{
		{"abc", "job:abc"},
		{longest[:508], "job:" + longest[:508]},
		{longest[:509], "job:dc95dba3edde35ac1ce6559483f41afca1aefe3cb2977669a7ba4f19fbbe65e7"},
		{longest, "job:64164443bb63e338ef1cfdb12a57117cd1212270cc935a798f6e8a665cdf4659"},
	} {
		if got := wire.DerivedID("job", test.of); got != test.want {
			t.Errorf("of %d bytes: %s, want %s", len(test.of), got, test.want)
		}
	}
}
