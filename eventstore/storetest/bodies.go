package storetest

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/schemas"
)

// testOddBodies has JSON of which a flattened field refuses a value, or all: the order in it is
// found, and counted, and the body comes back.
func testOddBodies(t *testing.T, store Aggregations) {
	s := subject{store, t.Name()}
	long := strings.Repeat("x", 33_000)
	var events []schemas.Event
	for n, body := range []string{
		`{"order":42,"pdf":"` + long + `"}`,
		`{"order":42,"note":"` + strings.Repeat("語", 11_000) + `"}`,
		"\ufeff" + `{"order":42}`,
		`[{"order":42},{"order":43}]`,
		`[["a",[7]],{"order":42},{"callbacks":null}]`,
		`{"order":42,"a":1,"a":2}`,
		`{"order":42,"\u0000":{"b":1}}`,
		`{"order":42,"deep":` + strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 41),
		`{"order":42,"n":` + strings.Repeat("1", 1001) + "}",
		`{"order":42,"` + long + `":1}`,
	} {
		e := s.event(n)
		e.EventID, e.Envelope.Body = fmt.Sprint("event-", n), []byte(body)
		events = append(events, e)
	}
	s.createVisible(t, events...)
	found := s.read(t, s.selectOwn(t, "body.json.order: 42"))
	if len(found) != len(events) {
		t.Errorf("found %d of %d bodies", len(found), len(events))
	}
	for _, e := range found {
		if want := events[e.Sequence].Envelope.Body; string(e.Envelope.Body) != string(want) {
			t.Errorf("the body %.100q came back as %.100q", want, e.Envelope.Body)
		}
	}
	for query, want := range map[string]int{
		"body.json.order: 43": 1, "body.json.a: 2": 1, "body.json.a: 1": 0, "body.json: a": 1, "body.json: 7": 1,
		"body.json: *": len(events), "body.json.deep: *": 0, "body.json.callbacks: *": 0,
	} {
		if found := s.read(t, s.selectOwn(t, query)); len(found) != want {
			t.Errorf("%s finds %d, want %d", query, len(found), want)
		}
	}
	top, err := store.TopValues(t.Context(), s.selectOwn(t, ""), "body.json.order", 10)
	if want := (eventstore.Aggregation{Values: []eventstore.Bucket{{Text: "42", Count: 10}, {Text: "43", Count: 1}}}); err != nil || !cmp.Equal(top, want) {
		t.Errorf("the orders are %+v, %v", top, err)
	}
}

// testEncodedBodies has text that is compressed, or of another charset: it is found as other text
// is, and the bytes come back.
func testEncodedBodies(t *testing.T, store Aggregations) {
	s := subject{store, t.Name()}
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, _ = w.Write([]byte(`{"order":42,"note":"Währung"}`))
	_ = w.Close()
	latin, unzipped := s.event(1), s.event(2)
	latin.Envelope.Properties.ContentType, latin.Envelope.Body = "application/json; charset=ISO-8859-1", []byte("{\"order\":42,\"note\":\"W\xe4hrung\"}")
	unzipped.Envelope.Properties.ContentEncoding, unzipped.Envelope.Body = "gzip", zipped.Bytes()
	s.createVisible(t, latin, unzipped)
	for _, query := range []string{"body.json.order: 42", "body.json.note: Währung", "body.text: währung"} {
		found := s.read(t, s.selectOwn(t, query))
		if len(found) != 2 {
			t.Errorf("%s finds %d of 2", query, len(found))
		}
		for _, e := range found {
			if want := []schemas.Event{latin, unzipped}[e.Sequence-1].Envelope.Body; !bytes.Equal(e.Envelope.Body, want) {
				t.Errorf("the body %q came back as %q", want, e.Envelope.Body)
			}
		}
	}
}
