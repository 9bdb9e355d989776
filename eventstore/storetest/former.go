package storetest

import (
	_ "embed"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/watershipmq/watership/schemas"
)

// formerDocuments has documents of version 1, one a line.
//
//go:embed testdata/documents-v1.ndjson
var formerDocuments string

// formerDocs returns the kept documents with the test's source, and their own ids.
func (s subject) formerDocs(t *testing.T) []schemas.Document {
	t.Helper()
	renamed := strings.NewReplacer(
		`"event":{"id":"`, `"event":{"id":"`+s.source+" former ",
		`"source":"rabbit@shop/"`, `"source":"`+s.source+`"`, `"source":"test"`, `"source":"`+s.source+`"`,
	).Replace(formerDocuments)
	var docs []schemas.Document
	for line := range strings.Lines(renamed) {
		event, err := schemas.ParseDocument([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, schemas.Document{ID: event.EventID, Stream: event.Action.Stream(), Source: []byte(strings.TrimSuffix(line, "\n"))})
	}
	return docs
}

// testFormer: documents of version 1 and of today are found by the same queries, and give
// the same events.
func testFormer(t *testing.T, s subject) {
	former := s.formerDocs(t)
	s.create(t, former, allCreated(len(former))...)
	format := schemas.DocumentFormat{Labels: []string{"tenant"}, NumericLabels: []string{"int32"}}
	today := make([]schemas.Document, len(former))
	for i, doc := range former {
		event, err := schemas.ParseDocument(doc.Source)
		if err != nil {
			t.Fatal(err)
		}
		event.EventID = strings.Replace(event.EventID, " former ", " today ", 1)
		today[i] = format.Document(event)
	}
	s.create(t, today, allCreated(len(today))...)
	s.refresh(t)
	for query, each := range map[string]int{
		``:                                       12,
		`headers.tenant: acme`:                   10,
		`headers.table.a.b.c: 1`:                 8,
		`headers: two`:                           9,
		`headers: *`:                             10,
		`labels.tenant: acme`:                    10,
		`numeric_labels.int32 < 0`:               8,
		`body.json.lines.sku: a-1`:               1,
		`body.json.order: 4*`:                    3,
		`body.json.order: *`:                     3,
		`body.text: violins`:                     1,
		`body.text: "a 1"`:                       3,
		`messaging.message.id: m-1`:              9,
		`messaging.message.conversation_id: co*`: 9,
		`watership.fingerprint: v1*`:             10,
		`error.message: "no stock"`:              9,
		`event.id: "` + s.source + ` former bare" or event.id: "` + s.source + ` today bare"`: 1,
		`event.id: *bare`: 1,
		`event.id: *`:     12,
		`event.ingested >= "2026-05-04T03:02:02Z"`:   1,
		`trace.id: 0af7651916cd43dd8448eb211c80319c`: 1,
	} {
		count := map[string]int{}
		for _, event := range s.read(t, s.selectOwn(t, query)) {
			count[strings.Fields(strings.TrimPrefix(event.EventID, s.source))[0]]++
		}
		if want := map[string]int{"former": each, "today": each}; !cmp.Equal(count, want) {
			t.Errorf("%s finds %v, want %v", query, count, want)
		}
	}
	events := map[string]schemas.Event{}
	for _, event := range s.read(t, s.selectOwn(t, "")) {
		events[strings.TrimPrefix(event.EventID, s.source)] = event
	}
	for id, event := range events {
		if name, isFormer := strings.CutPrefix(id, " former "); isFormer {
			same := events[" today "+name]
			same.EventID = event.EventID
			wantEqual(t, event, same)
		}
	}
}
