package schemas_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/internal/wire/wiretest"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/schemas/tablejson"
)

// The documents and the headers of waiting messages of released versions are still read. A release keeps its own:
// with WATERSHIP_TEST_RELEASE=VERSION the test writes those of the version.
func TestReleasedForms(t *testing.T) {
	if version := os.Getenv("WATERSHIP_TEST_RELEASE"); version != "" {
		keepForms(t, filepath.Join("testdata/released", version))
	}
	releases, err := filepath.Glob("testdata/released/*")
	if err != nil || len(releases) == 0 {
		t.Fatal(releases, err)
	}
	for _, release := range releases {
		wantEvents(t, filepath.Join(release, "documents.ndjson"))
		wantStates(t, filepath.Join(release, "waiting.ndjson"))
	}
}

// keepForms writes the documents of formerEvents, and the headers with which their messages wait.
func keepForms(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var documents, waiting []byte
	for _, event := range wiretest.FormerEvents() {
		documents = append(schemas.DocumentFormat{}.Append(documents, event), '\n')
		waiting = append(tablejson.Append(waiting, wire.DefaultFrameMax.Wrap(event.Envelope, event.State).Headers), '\n')
	}
	for name, text := range map[string][]byte{"documents.ndjson": documents, "waiting.ndjson": waiting} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// wantStates reads the states of formerEvents from a file with the headers of their messages.
func wantStates(t *testing.T, file string) {
	t.Helper()
	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	events := wiretest.FormerEvents()
	for i, line := range bytes.Split(bytes.TrimSpace(kept), []byte("\n")) {
		headers, err := tablejson.Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		_, got, err := wire.Unwrap(wiretest.Arriving(amqp.Publishing{Headers: headers, Body: events[i].Envelope.Body}, "", "q"))
		if diff := cmp.Diff(events[i].State, got, cmpopts.EquateEmpty()); diff != "" || err != nil {
			t.Errorf("%s, line %d: %v (-want +got):\n%s", file, i+1, err, diff)
		}
	}
}
