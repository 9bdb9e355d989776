package elastic

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/watershipmq/watership/eventstore/elastic/internal/bulkbody"
	"github.com/watershipmq/watership/schemas"
)

const inABulk = 1000

// BenchmarkBulkBody and BenchmarkBulkResponse are the whole cost of a bulk request
// except for the network; one operation is one document.
func BenchmarkBulkBody(b *testing.B) {
	docs := make([]schemas.Document, inABulk)
	for i := range docs {
		docs[i] = document(benchmarkID(i))
		docs[i].Source = fmt.Appendf(nil, `{"body":{"text":%q}}`, strings.Repeat("x", 1500))
	}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		if n%inABulk == 0 {
			if _, err := io.Copy(io.Discard, bulkbody.New(DefaultStream, docs)); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkBulkResponse(b *testing.B) {
	w := writer{&client{stream: DefaultStream}}
	var docs []schemas.Document
	var items []string
	for i := range inABulk {
		docs = append(docs, document(benchmarkID(i)))
		items = append(items, fmt.Sprintf(`{"create":{"_id":%q,"status":201}}`, benchmarkID(i)))
	}
	response := []byte(`{"items":[` + strings.Join(items, ",") + `]}`)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		if n%inABulk == 0 {
			if _, err := w.parseBulk(response, docs); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func benchmarkID(i int) string {
	return fmt.Sprintf("rabbit@shop/:v1:%064d:%d", i, 1700000000000000+i)
}
