package elastic

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/storetest"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/schemas/tablejson"
)

// BenchmarkDocument measures what a `published` event costs Elasticsearch: the CPU until
// it is written, visible and merged, and the bytes on disk after a force-merge. The
// variants take turns. One operation is one turn: run it with -benchtime 1x.
// WATERSHIP_BENCH_DOCUMENTS says how many documents a turn has (20,000). Nothing else may
// use the server.
func BenchmarkDocument(b *testing.B) {
	count, err := strconv.Atoi(cmp.Or(os.Getenv("WATERSHIP_BENCH_DOCUMENTS"), "20000"))
	if err != nil {
		b.Fatal(err)
	}
	events := storetest.BenchEvents(count)
	for round := range 4 { // the first warms Elasticsearch up
		for _, v := range costVariants(b) {
			b.Run(fmt.Sprintf("%s/round=%d", v.name, round), func(b *testing.B) { v.measure(b, events) })
		}
	}
}

// costVariant is a mapping with its settings, and the documents for it.
type costVariant struct {
	name   string
	index  map[string]any // the body that creates the index
	source func(schemas.Event) []byte
}

// costVariants are the form of version 1, each change of it alone, the form of today, and
// the least that an indexer could write.
func costVariants(b *testing.B) []costVariant {
	b.Helper()
	current := func(e schemas.Event) []byte { return schemas.DocumentFormat{}.Append(nil, e) }
	list := []costVariant{
		{"version=1", formerIndex(b), formerSource},
		{"today", currentIndex(b), current},
		{"minimal", minimalIndex(), minimalSource},
	}
	for _, lever := range levers {
		index := formerIndex(b)
		for _, change := range lever.changes {
			setPath(index, change.value, strings.Split(change.path, "/")...)
		}
		list = append(list, costVariant{"version=1, " + lever.name, index, formerSource})
	}
	return append(list, costVariant{"version=1, headers once", formerIndex(b), current})
}

type change struct {
	path  string
	value any
}

// levers are the changes from version 1 to version 2 of the mapping, and others that were
// tried.
var levers = []struct {
	name    string
	changes []change
}{
	{"best_compression", []change{{"settings/index.codec", "best_compression"}}},
	{"refresh after 5 s", []change{{"settings/index.refresh_interval", "5s"}}},
	{"texts without norms", []change{{"mappings/properties/body/properties/text/norms", false}}},
	{"body.json without doc_values", []change{{"mappings/properties/body/properties/json/doc_values", false}}},
	{"headers without doc_values", []change{{"mappings/properties/headers/doc_values", false}}},
	{"ids without doc_values or index", []change{
		{"mappings/properties/event/properties/id/index", false},
		{"mappings/properties/watership/properties/fingerprint/doc_values", false},
		{"mappings/properties/messaging/properties/message/properties/id/doc_values", false},
		{"mappings/properties/messaging/properties/message/properties/conversation_id/doc_values", false},
	}},
	{"body.json not in the source", []change{{"mappings/_source", map[string]any{"excludes": []string{"body.json"}}}}},
	{"body.json off", []change{{"mappings/properties/body/properties/json", map[string]any{"type": "object", "enabled": false}}}},
	{"body.text off", []change{{"mappings/properties/body/properties/text/index", false}}},
}

func setPath(object map[string]any, value any, path ...string) {
	for _, name := range path[:len(path)-1] {
		child, ok := object[name].(map[string]any)
		if !ok {
			child = map[string]any{}
			object[name] = child
		}
		object = child
	}
	object[path[len(path)-1]] = value
}

func formerIndex(b *testing.B) map[string]any {
	b.Helper()
	template, err := os.ReadFile("testdata/mappings-v1.json")
	if err != nil {
		b.Fatal(err)
	}
	return indexOf(b, template)
}

// currentIndex has the settings of both templates of the stream of traffic.
func currentIndex(b *testing.B) map[string]any {
	b.Helper()
	stream, err := eventstore.StreamTemplate("bench-traffic", "", "bench-mappings")
	if err != nil {
		b.Fatal(err)
	}
	index := indexOf(b, eventstore.MappingsTemplate())
	settings, _ := indexOf(b, stream)["settings"].(map[string]any)
	for name, value := range settings {
		setPath(index, value, "settings", name)
	}
	return index
}

// indexOf returns the body that creates an index as a template does, without replicas.
func indexOf(b *testing.B, template []byte) map[string]any {
	b.Helper()
	var body struct{ Template map[string]any }
	if err := json.Unmarshal(template, &body); err != nil {
		b.Fatal(err)
	}
	delete(body.Template, "lifecycle")
	setPath(body.Template, "false", "settings", "index.auto_expand_replicas")
	setPath(body.Template, 0, "settings", "index.number_of_replicas")
	return body.Template
}

// formerSource returns a document of version 1, which has all headers and properties in
// amqp.
func formerSource(e schemas.Event) []byte {
	var document map[string]json.RawMessage
	if err := json.Unmarshal(schemas.DocumentFormat{}.Append(nil, e), &document); err != nil {
		panic(err)
	}
	p := e.Envelope.Properties
	exact := map[string]any{
		"exchange": e.Envelope.Exchange, "routing_key": e.Envelope.RoutingKey,
		"properties": map[string]any{
			"content_type": p.ContentType, "delivery_mode": p.DeliveryMode, "correlation_id": p.CorrelationID,
			"message_id": p.MessageID, "timestamp": p.Timestamp.Unix(), "type": p.Type, "app_id": p.AppID,
		},
		"headers": json.RawMessage(tablejson.Append(nil, e.Envelope.Headers)),
	}
	document["amqp"], _ = json.Marshal(exact)
	// The order of version 1, on which compression depends.
	source := []byte("{")
	for _, name := range []string{"@timestamp", "event", "messaging", "trace", "watership", "amqp", "headers", "body"} {
		if value, ok := document[name]; ok {
			source = fmt.Appendf(source, "%q:%s,", name, value)
		}
	}
	source[len(source)-1] = '}'
	return source
}

func minimalIndex() map[string]any {
	keyword, date := map[string]any{"type": "keyword"}, map[string]any{"type": "date"}
	return map[string]any{
		"settings": map[string]any{"index.codec": "best_compression", "index.refresh_interval": "5s", "index.number_of_replicas": 0},
		"mappings": map[string]any{"dynamic": false, "properties": map[string]any{
			"@timestamp": date, "received_at": date, "exchange": keyword, "routing_key": keyword, "message_id": keyword,
			"correlation_id": keyword, "content_type": keyword, "type": keyword, "app_id": keyword,
			"headers": map[string]any{"type": "flattened"}, "body": map[string]any{"type": "text", "norms": false},
		}},
	}
}

// minimalSource has the text of the body, and headers without their types: it can be
// searched and not replayed exactly.
func minimalSource(e schemas.Event) []byte {
	p := e.Envelope.Properties
	source, _ := json.Marshal(map[string]any{
		"@timestamp": e.Time, "received_at": e.Ingested, "exchange": e.Envelope.Exchange, "routing_key": e.Envelope.RoutingKey,
		"message_id": p.MessageID, "correlation_id": p.CorrelationID, "content_type": p.ContentType, "type": p.Type,
		"app_id": p.AppID, "headers": e.Envelope.Headers, "body": string(e.Envelope.Body),
	})
	return source
}

func (v costVariant) measure(b *testing.B, events []schemas.Event) {
	const name = "/bench-document"
	for b.Loop() {
		b.StopTimer()
		bulks, size := v.bulks(events)
		benchDo(b, "DELETE", name+"?ignore_unavailable=true", nil)
		index, _ := json.Marshal(v.index)
		benchDo(b, "PUT", name, index)
		before := storeCPU(b)
		b.StartTimer()
		sendBulks(b, name+"/_bulk?filter_path=errors", bulks)
		benchDo(b, "POST", name+"/_flush", nil)
		benchDo(b, "POST", name+"/_refresh", nil)
		awaitMerges(b, name)
		b.StopTimer()
		used := storeCPU(b) - before
		benchDo(b, "POST", name+"/_forcemerge?max_num_segments=1", nil)
		var stats indexStats
		benchRead(b, name+"/_stats/store", &stats)
		b.ReportMetric(float64(used.Microseconds())/float64(len(events)), "store-µs/doc")
		b.ReportMetric(float64(stats.All.Primaries.Store.Bytes)/float64(len(events)), "disk-B/doc")
		b.ReportMetric(float64(size)/float64(len(events)), "source-B/doc")
		benchDo(b, "DELETE", name, nil)
		b.StartTimer()
	}
}

// bulks are requests of a thousand documents. size is that of all sources.
func (v costVariant) bulks(events []schemas.Event) (bulks [][]byte, size int) {
	for first := 0; first < len(events); first += inABulk {
		var body []byte
		for _, e := range events[first:min(len(events), first+inABulk)] {
			source := v.source(e)
			size += len(source)
			body = fmt.Appendf(body, "{\"create\":{\"_id\":%q}}\n%s\n", e.EventID, source)
		}
		bulks = append(bulks, body)
	}
	return bulks, size
}

// sendBulks sends over two connections, as the indexer does.
func sendBulks(b *testing.B, path string, bulks [][]byte) {
	var group errgroup.Group
	next := make(chan []byte, len(bulks))
	for _, bulk := range bulks {
		next <- bulk
	}
	close(next)
	for range 2 {
		group.Go(func() error {
			for bulk := range next {
				if answer := benchDo(b, "POST", path, bulk); !bytes.Contains(answer, []byte(`"errors":false`)) {
					return fmt.Errorf("not all documents were created: %.300s", answer)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
}

type indexStats struct {
	All struct {
		Primaries struct {
			Store struct {
				Bytes int64 `json:"size_in_bytes"`
			} `json:"store"`
			Merges struct {
				Current int `json:"current"`
			} `json:"merges"`
		} `json:"primaries"`
	} `json:"_all"`
}

func awaitMerges(b *testing.B, name string) {
	for {
		var stats indexStats
		benchRead(b, name+"/_stats/merge", &stats)
		if stats.All.Primaries.Merges.Current == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// storeCPU waits first, since Elasticsearch measures once a second.
func storeCPU(b *testing.B) (used time.Duration) {
	time.Sleep(1100 * time.Millisecond)
	var stats struct {
		Nodes map[string]struct {
			Process struct {
				CPU struct {
					Millis int64 `json:"total_in_millis"`
				} `json:"cpu"`
			} `json:"process"`
		} `json:"nodes"`
	}
	benchRead(b, "/_nodes/stats/process", &stats)
	for _, node := range stats.Nodes {
		used += time.Duration(node.Process.CPU.Millis) * time.Millisecond
	}
	return used
}

func benchRead(b *testing.B, path string, into any) {
	if err := json.Unmarshal(benchDo(b, "GET", path, nil), into); err != nil {
		b.Fatal(err)
	}
}

func benchDo(b *testing.B, method, path string, body []byte) []byte {
	server := os.Getenv("WATERSHIP_TEST_STORE_URL")
	if server == "" {
		b.Skip("WATERSHIP_TEST_STORE_URL is not set: no Elasticsearch to measure")
	}
	request, err := http.NewRequestWithContext(b.Context(), method, server+path, bytes.NewReader(body))
	if err != nil {
		b.Error(err)
		return nil
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		b.Error(err)
		return nil
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= 300 {
		b.Errorf("%s %s: %d %.500s (%v)", method, path, response.StatusCode, answer, err)
	}
	return answer
}
