package transfer

import (
	"bytes"
	"compress/gzip"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
)

// Exports that were compressed, or that a program of Windows has written, are read as they are.
func TestReadFilesOfOtherPrograms(t *testing.T) {
	t.Parallel()
	e := schemas.Event{Action: schemas.Published, Sequence: 1, Source: "test", VHost: "/"}
	e.EventID, e.Time = "test:1", time.Unix(1_700_000_000, 0).UTC()
	line := append(schemas.DocumentFormat{}.Document(e).Source, '\n')
	marked := append([]byte("\xef\xbb\xbf"), line...)
	for name, file := range map[string][]byte{
		"plain": line, "with a byte order mark": marked, "gzip": compressed(t, line), "gzip with a byte order mark": compressed(t, marked), "gzip in parts": append(compressed(t, line), compressed(t, line)...),
	} {
		events := 0
		for event, err := range Read(bytes.NewReader(file)) {
			if events++; err != nil || event.EventID != e.EventID {
				t.Errorf("%s: event %q, %v", name, event.EventID, err)
			}
		}
		if wanted := 1 + strings.Count(name, "parts"); events != wanted {
			t.Errorf("%s: %d events, want %d", name, events, wanted)
		}
	}
	for _, err := range Read(bytes.NewReader(compressed(t, line)[:20])) {
		if err == nil || !strings.Contains(err.Error(), "unexpected EOF") {
			t.Errorf("half of a gzip file: %v", err)
		}
	}
}

func compressed(t *testing.T, text []byte) []byte {
	t.Helper()
	var file bytes.Buffer
	to := gzip.NewWriter(&file)
	_, err := to.Write(text)
	if err = errors.Join(err, to.Close()); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// FuzzRead: the sequence ends for any file, at the latest after the first line that is
// no document, and an exported document is the same after another import and export.
func FuzzRead(f *testing.F) {
	e := schemas.Event{
		Action: schemas.Poisoned, Sequence: 1, Source: "test", VHost: "/",
		Envelope: schemas.Envelope{Exchange: "shop", RoutingKey: "k", Body: []byte(`{"order":1}`)},
	}
	e.EventID, e.Time, e.Fingerprint = "test:1", time.Unix(1_700_000_000, 0).UTC(), e.Envelope.Fingerprint()
	e.Envelope.Headers = amqp.Table{"n": int8(-1), "raw": []byte{0xff}, "none": nil, "deep": amqp.Table{"list": []any{"a", int32(2)}}}
	e.Envelope.Properties = schemas.Properties{MessageID: "m", Priority: 3, Timestamp: e.Time}
	line := schemas.DocumentFormat{}.Document(e).Source
	f.Add(line)
	f.Add(append(append(bytes.Clone(line), "\r\n\n  "...), line...))
	f.Add([]byte("{}\n"))
	f.Add([]byte("\xef\xbb\xbf[]"))
	f.Fuzz(func(t *testing.T, file []byte) {
		failed := false
		for event, err := range Read(bytes.NewReader(file)) {
			if failed {
				t.Fatal("the sequence continues after an error")
			}
			if failed = err != nil; failed || event.Check(time.Now()) != nil {
				continue
			}
			stored := schemas.DocumentFormat{}.Document(event)
			again, err := schemas.ParseDocument(stored.Source)
			if err != nil {
				t.Fatalf("a stored document cannot be read: %v\n%s", err, stored.Source)
			}
			if diff := cmp.Diff(stored.Source, schemas.DocumentFormat{}.Document(again).Source); diff != "" {
				t.Errorf("(-stored +exported and stored again):\n%s", diff)
			}
		}
	})
}
