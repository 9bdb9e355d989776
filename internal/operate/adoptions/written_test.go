package adoptions_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/watershipmq/watership/internal/operate/adoptions"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/schemas/tablejson"
)

// written is a file of testdata: a message of an error queue, and the failure that it is.
type written struct {
	By      string         `json:"by"` // which program wrote the message
	As      string         `json:"as"` // format
	Queue   string         `json:"queue"`
	Message writtenMessage `json:"message"`
	Failure writtenFailure `json:"failure"`
}

type writtenFailure struct {
	Queue     string         `json:"queue"`
	Error     string         `json:"error"`
	ErrorType string         `json:"error_type,omitempty"`
	Stack     []string       `json:"stack,omitempty"` // its first and last line
	Attempts  int            `json:"attempts,omitempty"`
	FailedAt  time.Time      `json:"failed_at,omitzero"`
	Message   writtenMessage `json:"message"`
}

type writtenMessage struct {
	Exchange        string          `json:"exchange"`
	RoutingKey      string          `json:"routing_key"`
	ContentType     string          `json:"content_type,omitempty"`
	ContentEncoding string          `json:"content_encoding,omitempty"`
	DeliveryMode    uint8           `json:"delivery_mode,omitempty"`
	Priority        uint8           `json:"priority,omitempty"`
	CorrelationID   string          `json:"correlation_id,omitempty"`
	ReplyTo         string          `json:"reply_to,omitempty"`
	Expiration      string          `json:"expiration,omitempty"`
	MessageID       string          `json:"message_id,omitempty"`
	Timestamp       time.Time       `json:"timestamp,omitzero"`
	Type            string          `json:"type,omitempty"`
	AppID           string          `json:"app_id,omitempty"`
	Headers         json.RawMessage `json:"headers,omitempty"` // of tablejson
	Body            string          `json:"body"`
}

func (m writtenMessage) envelope(t testing.TB) schemas.Envelope {
	t.Helper()
	headers, err := tablejson.Parse(m.Headers)
	if err != nil {
		t.Fatal(err)
	}
	return schemas.Envelope{
		Exchange: m.Exchange, RoutingKey: m.RoutingKey, Headers: headers, Body: []byte(m.Body),
		Properties: schemas.Properties{
			ContentType: m.ContentType, ContentEncoding: m.ContentEncoding, DeliveryMode: m.DeliveryMode, Priority: m.Priority,
			CorrelationID: m.CorrelationID, ReplyTo: m.ReplyTo, Expiration: m.Expiration, MessageID: m.MessageID,
			Timestamp: m.Timestamp, Type: m.Type, AppID: m.AppID,
		},
	}
}

func writtenOf(f adoptions.Failure) writtenFailure {
	e, p := f.Message, f.Message.Properties
	made := writtenFailure{Queue: f.Queue, Error: f.Error, ErrorType: f.ErrorType, Attempts: f.Attempts, FailedAt: f.FailedAt, Message: writtenMessage{
		Exchange: e.Exchange, RoutingKey: e.RoutingKey, Headers: tablejson.Append(nil, e.Headers), Body: string(e.Body),
		ContentType: p.ContentType, ContentEncoding: p.ContentEncoding, DeliveryMode: p.DeliveryMode, Priority: p.Priority,
		CorrelationID: p.CorrelationID, ReplyTo: p.ReplyTo, Expiration: p.Expiration, MessageID: p.MessageID,
		Timestamp: p.Timestamp, Type: p.Type, AppID: p.AppID,
	}}
	if lines := strings.Split(f.Stack, "\n"); f.Stack != "" {
		made.Stack = []string{lines[0], lines[len(lines)-1]}
	}
	return made
}

// TestWrittenFailures reads what the libraries of other systems put into their error queues. A
// new file needs no failure: with WATERSHIP_TEST_UPDATE=1 the test adds it.
func TestWrittenFailures(t *testing.T) {
	for name, file := range writtenFiles(t) {
		t.Run(filepath.Base(name), func(t *testing.T) {
			format, err := adoptions.FormatNamed(file.As)
			if err != nil {
				t.Fatal(err)
			}
			read, err := format.Read(file.Message.envelope(t), file.Queue, "", schemas.Topology{})
			if err != nil {
				t.Fatal(err)
			}
			want := asJSON(t, file)
			file.Failure = writtenOf(read)
			got := asJSON(t, file)
			if os.Getenv("WATERSHIP_TEST_UPDATE") != "" {
				if err := os.WriteFile(name, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func writtenFiles(t testing.TB) map[string]written {
	t.Helper()
	names, err := filepath.Glob("testdata/*.json")
	if err != nil || len(names) == 0 {
		t.Fatalf("there are the files %q: %v", names, err)
	}
	files := map[string]written{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var file written
		if err := json.Unmarshal(text, &file); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		files[name] = file
	}
	return files
}

func asJSON(t *testing.T, file written) []byte {
	t.Helper()
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(file); err != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}
