package indexer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// drainJob configures a drain.
type drainJob struct {
	Broker, Queue string
	Store         string // URL; "": messages are discarded
	Stream        string // name of the index
}

// Limits of a drain.
const (
	drainPrefetch = 5000
	drainBatch    = 1000
	drainRequests = 2 // at once
)

// minimalIndexBody creates an index for documents without types, state or JSON of bodies.
const minimalIndexBody = `{"settings":{"index.codec":"best_compression","index.number_of_replicas":0,"index.refresh_interval":"5s"},
"mappings":{"dynamic":false,"properties":{"@timestamp":{"type":"date"},"received_at":{"type":"date"},
"exchange":{"type":"keyword"},"routing_key":{"type":"keyword"},"message_id":{"type":"keyword"},"correlation_id":{"type":"keyword"},
"content_type":{"type":"keyword"},"type":{"type":"keyword"},"app_id":{"type":"keyword"},
"headers":{"type":"flattened","ignore_above":1024},"body":{"type":"text","norms":false}}}}`

// TestDrain is no test: it is a drain, when the benchmark starts it. It is the limit of
// any indexer: it writes the text of bodies and headers without types, which can be
// searched and not replayed exactly, looks nothing up, and never tries again. It prints
// the number of acknowledged messages.
func TestDrain(t *testing.T) {
	text := os.Getenv("WATERSHIP_BENCH_DRAIN")
	if text == "" {
		t.Skip("runs for the benchmark")
	}
	var job drainJob
	if err := json.Unmarshal([]byte(text), &job); err != nil {
		t.Fatal(err)
	}
	if job.Store != "" {
		job.send(t, http.MethodPut, "", []byte(minimalIndexBody))
	}
	conn, err := amqp091.Dial(job.Broker)
	if err != nil {
		t.Fatal(err)
	}
	channel, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if err := channel.Qos(drainPrefetch, 0, false); err != nil {
		t.Fatal(err)
	}
	deliveries, err := channel.Consume(job.Queue, "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	job.run(t, deliveries)
}

// drainedBatch is a bulk request and the last message of its documents.
type drainedBatch struct {
	body []byte
	last amqp091.Delivery
	sent chan struct{}
}

// run drains the queue until the process is killed. A batch that stays incomplete is sent
// after a second.
func (j drainJob) run(t *testing.T, deliveries <-chan amqp091.Delivery) {
	work, inOrder := make(chan *drainedBatch), make(chan *drainedBatch, drainRequests)
	free := make(chan *drainedBatch, 2*drainRequests)
	for range drainRequests {
		go j.write(t, work)
	}
	go acknowledgeDrained(t, inOrder, free)
	submit := func(b *drainedBatch) *drainedBatch {
		inOrder <- b
		work <- b
		select {
		case used := <-free:
			return &drainedBatch{body: used.body[:0], sent: make(chan struct{})}
		default:
			return &drainedBatch{sent: make(chan struct{})}
		}
	}
	batch, messages := &drainedBatch{sent: make(chan struct{})}, 0
	incomplete := time.NewTicker(time.Second)
	for {
		select {
		case d, open := <-deliveries:
			if !open {
				return
			}
			if j.Store != "" {
				batch.body = appendMinimal(batch.body, &d)
			}
			batch.last = d
			if messages++; messages%drainBatch == 0 {
				batch = submit(batch)
			}
		case <-incomplete.C:
			if batch.last.Acknowledger != nil {
				batch = submit(batch)
			}
		}
	}
}

// write sends batches.
func (j drainJob) write(t *testing.T, batches <-chan *drainedBatch) {
	for b := range batches {
		if j.Store != "" {
			answer := j.send(t, http.MethodPost, "/_bulk?filter_path=errors", b.body)
			if !strings.Contains(answer, `"errors":false`) {
				t.Errorf("not all documents were created: %.300s", answer)
			}
		}
		close(b.sent)
	}
}

func acknowledgeDrained(t *testing.T, inOrder <-chan *drainedBatch, free chan<- *drainedBatch) {
	for b := range inOrder {
		<-b.sent
		if err := b.last.Ack(true); err != nil {
			t.Error(err)
		}
		fmt.Println(b.last.DeliveryTag)
		select {
		case free <- b:
		default:
		}
	}
}

func (j drainJob) send(t *testing.T, method, path string, body []byte) string {
	request, err := http.NewRequestWithContext(t.Context(), method, j.Store+"/"+j.Stream+path, bytes.NewReader(body))
	if err != nil {
		t.Error(err)
		return ""
	}
	request.Header.Set("Content-Type", "application/x-ndjson")
	if method == http.MethodPut {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= 300 {
		t.Errorf("%s %s: %d %.300s %v", method, path, response.StatusCode, answer, err)
	}
	return string(answer)
}

// appendMinimal appends the lines of one document.
func appendMinimal(dst []byte, d *amqp091.Delivery) []byte {
	dst = appendText(append(dst, `{"create":{"_id":`...), d.MessageId)
	dst = append(dst, "}}\n"+`{"@timestamp":"`...)
	dst = d.Timestamp.UTC().AppendFormat(dst, time.RFC3339Nano)
	dst = append(dst, `","received_at":"`...)
	dst = append(time.Now().UTC().AppendFormat(dst, time.RFC3339Nano), '"')
	for _, field := range [...]struct{ key, value string }{
		{`,"exchange":`, d.Exchange},
		{`,"routing_key":`, d.RoutingKey},
		{`,"message_id":`, d.MessageId},
		{`,"correlation_id":`, d.CorrelationId},
		{`,"content_type":`, d.ContentType},
		{`,"type":`, d.Type},
		{`,"app_id":`, d.AppId},
	} {
		dst = appendText(append(dst, field.key...), field.value)
	}
	dst = appendTable(append(dst, `,"headers":`...), d.Headers)
	dst = appendText(append(dst, `,"body":`...), string(d.Body))
	return append(dst, "}\n"...)
}

func appendTable(dst []byte, table amqp091.Table) []byte {
	dst = append(dst, '{')
	first := true
	for name, value := range table {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = appendHeader(append(appendText(dst, name), ':'), value)
	}
	return append(dst, '}')
}

func appendHeader(dst []byte, value any) []byte {
	switch v := value.(type) {
	case string:
		return appendText(dst, v)
	case int64:
		return strconv.AppendInt(dst, v, 10)
	case int32:
		return strconv.AppendInt(dst, int64(v), 10)
	case bool:
		return strconv.AppendBool(dst, v)
	case time.Time:
		return append(v.UTC().AppendFormat(append(dst, '"'), time.RFC3339), '"')
	case amqp091.Table:
		return appendTable(dst, v)
	}
	return appendText(dst, fmt.Sprint(value))
}

// appendText appends a JSON string. Messages of the benchmark are UTF-8 without other
// control characters than line breaks.
func appendText(dst []byte, text string) []byte {
	dst = append(dst, '"')
	for {
		special := strings.IndexAny(text, "\"\\\n")
		if special < 0 {
			return append(append(dst, text...), '"')
		}
		dst = append(append(dst, text[:special]...), '\\', text[special])
		if text[special] == '\n' {
			dst[len(dst)-1] = 'n'
		}
		text = text[special+1:]
	}
}
