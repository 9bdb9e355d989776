package schemas_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/internal/wire/wiretest"
	"github.com/watershipmq/watership/schemas"
)

// formerDocuments has the documents of formerEvents in the form of version 1, one a line.
const formerDocuments = "../eventstore/storetest/testdata/documents-v1.ndjson"

// Documents of version 1 are still read, exactly.
func TestFormerDocumentsAreRead(t *testing.T) {
	wantEvents(t, formerDocuments)
}

// wantEvents reads formerEvents from a file with their documents.
func wantEvents(t *testing.T, file string) {
	t.Helper()
	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines, events := bytes.Split(bytes.TrimSpace(kept), []byte("\n")), wiretest.FormerEvents()
	if len(lines) != len(events) {
		t.Fatalf("%d documents of %d events", len(lines), len(events))
	}
	for i, want := range events {
		got, err := schemas.ParseDocument(lines[i])
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, wiretest.Bitwise(), cmpopts.IgnoreUnexported(schemas.Event{})); diff != "" {
			t.Errorf("event %s changed on its way through its former document (-want +got):\n%s", want.EventID, diff)
		}
		again, err := schemas.ParseDocument(schemas.DocumentFormat{}.Append(nil, got))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, again, wiretest.Bitwise(), cmpopts.IgnoreUnexported(schemas.Event{})); diff != "" {
			t.Errorf("event %s changed on its way through both forms (-want +got):\n%s", want.EventID, diff)
		}
	}
}

// An earlier form of version 2 had another name for the time of the ingest.
func TestFormerTimeSource(t *testing.T) {
	event := wiretest.GoldenEvent()
	event.TimeSource = wire.TimeOfIngest
	document := schemas.DocumentFormat{}.Append(nil, event)
	former := bytes.Replace(document, []byte(`"time_source":"ingest"`), []byte(`"time_source":"taken"`), 1)
	if bytes.Equal(former, document) {
		t.Fatal("the document has no time source")
	}
	if got, err := schemas.ParseDocument(former); err != nil || got.TimeSource != wire.TimeOfIngest {
		t.Errorf("%q, %v", got.TimeSource, err)
	}
}
