package sqlite

import (
	"os"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore/storetest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// BenchmarkStore measures what a `published` event costs: the CPU of this process, and the
// bytes of the file. One operation is one turn.
func BenchmarkStore(b *testing.B) {
	const count, batch = 20_000, 1000
	docs := make([]schemas.Document, count)
	var message, source int
	for i, e := range storetest.BenchEvents(count) {
		docs[i] = schemas.DocumentFormat{}.Document(e)
		message += messageSize(b, e.Envelope)
		source += len(docs[i].Source)
	}
	for b.Loop() {
		b.StopTimer()
		path := b.TempDir() + "/store.db"
		s := installed(b, Config{Path: path})
		before := cpuTime(b)
		b.StartTimer()
		for first := 0; first < count; first += batch {
			create(b, s, docs[first:first+batch]...)
		}
		b.StopTimer()
		used := cpuTime(b) - before
		execSQL(b, path, "PRAGMA wal_checkpoint(TRUNCATE)")
		info, err := os.Stat(path)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(used.Microseconds())/count, "cpu-µs/doc")
		b.ReportMetric(float64(info.Size())/count, "disk-B/doc")
		b.ReportMetric(float64(message)/count, "message-B")
		b.ReportMetric(float64(source)/count, "source-B/doc")
		b.ReportMetric(float64(info.Size())/float64(message), "disk/message")
		b.StartTimer()
	}
}

// messageSize is the size of a message's body and of its content header: the properties
// and headers as AMQP encodes them.
func messageSize(b *testing.B, e schemas.Envelope) int {
	b.Helper()
	p := e.Properties
	return len(e.Body) + wire.HeaderFrameSize(amqp.Publishing{
		Headers: e.Headers, ContentType: p.ContentType, CorrelationId: p.CorrelationID, DeliveryMode: 2,
		MessageId: p.MessageID, Timestamp: e.Properties.Timestamp, Type: p.Type, AppId: p.AppID,
	})
}

// cpuTime returns the CPU time of this process.
func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
