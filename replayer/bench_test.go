package replayer

import (
	"bytes"
	"context"
	"fmt"
	"runtime/metrics"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
)

// BenchmarkReplay replays messages of 1 KiB with 8 headers, and compares the
// rate with that of a bare loop that publishes the same messages, and nothing
// else, from memory, and with that of reading them from Elasticsearch. The
// ratio is to the lower of the two. A replay does both at once, and publishes
// the `replayed` events and saves checkpoints besides; it is counted in
// messages.
//
// heap-MB is the most that the replay had on the heap: it should not depend on
// the number of messages but for the set of those that were sent.
func BenchmarkReplay(b *testing.B) {
	for _, messages := range []int{20_000, 100_000} {
		b.Run(fmt.Sprint(messages), func(b *testing.B) { benchReplay(b, messages) })
	}
}

func benchReplay(b *testing.B, messages int) {
	f := newFixture(b)
	sent := f.benchMessages(messages)
	order := f.job("")
	var publish, scroll, replay time.Duration
	var heap uint64
	for b.Loop() {
		f.empty()
		publish += timed(func() { f.publishBare(b, sent, messages) })
		f.empty()
		scroll += timed(func() { f.scrollAll(b, order, messages) })
		job := f.begin(order)
		heap = max(heap, heapDuring(func() {
			replay += timed(func() {
				if ran := f.resume(job, RunOptions{}); ran.Sent != messages {
					b.Fatalf("sent %d", ran.Sent)
				}
			})
		}))
	}
	rate := func(d time.Duration) float64 { return float64(messages) * float64(b.N) / d.Seconds() }
	b.ReportMetric(rate(publish), "published/s")
	b.ReportMetric(rate(scroll), "read/s")
	b.ReportMetric(rate(replay), "replayed/s")
	b.ReportMetric(rate(replay)/min(rate(publish), rate(scroll)), "ratio")
	b.ReportMetric(float64(heap)/1e6, "heap-MB")
	b.ReportMetric(0, "ns/op")
	f.empty()
}

// benchMessages stores messages, and gives ten thousand of them to be published
// again and again: all of them would be most of the heap.
func (f *fixture) benchMessages(messages int) func(n int) schemas.Envelope {
	const many = 10_000
	var some []schemas.Envelope
	for begin := 0; begin < messages; begin += many {
		events := make([]schemas.Event, many)
		some = some[:0]
		for n := range events {
			e := f.message(begin + n)
			e.Body = fmt.Appendf(nil, `{"order":%d,"text":"%s"}`, n, bytes.Repeat([]byte("x"), 1000))
			for h := range 6 {
				e.Headers[fmt.Sprint("header-", h)] = fmt.Sprint("value of header ", h)
			}
			events[n] = f.event(schemas.Published, e)
			some = append(some, e)
		}
		f.keep(events...)
	}
	return func(n int) schemas.Envelope { return some[n%many] }
}

func timed(do func()) time.Duration {
	began := time.Now()
	do()
	return time.Since(began)
}

// heapDuring is the most that was on the heap meanwhile, garbage included, in
// bytes.
func heapDuring(do func()) (most uint64) {
	done := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		for ticker := time.NewTicker(5 * time.Millisecond); ; {
			metrics.Read(sample)
			most = max(most, sample[0].Value.Uint64())
			select {
			case <-ticker.C:
			case <-done:
				ticker.Stop()
				return
			}
		}
	})
	do()
	close(done)
	watch.Wait()
	return most
}

func (f *fixture) empty() {
	f.t.Helper()
	for _, queue := range []string{f.queue, f.cfg.Topology.Log()} {
		if _, err := f.channel.QueuePurge(queue, false); err != nil {
			f.t.Fatal(err)
		}
	}
}

// publishBare is the client library alone, with as many messages on their way
// as a replay has.
func (f *fixture) publishBare(b *testing.B, message func(n int) schemas.Envelope, messages int) {
	b.Helper()
	channel := f.broker.Channel(b)
	if err := channel.Confirm(false); err != nil {
		b.Fatal(err)
	}
	onTheWay := make([]*amqp.DeferredConfirmation, 0, messages)
	for n := range messages + inFlight {
		if n >= inFlight {
			f.wantConfirmed(b, onTheWay[n-inFlight])
		}
		if n < messages {
			e := message(n)
			confirm, err := channel.PublishWithDeferredConfirm(e.Exchange, e.RoutingKey, true, false, e.Publishing())
			if err != nil {
				b.Fatal(err)
			}
			onTheWay = append(onTheWay, confirm)
		}
	}
}

func (f *fixture) wantConfirmed(b *testing.B, confirm *amqp.DeferredConfirmation) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	if acked, err := confirm.WaitContext(ctx); err != nil || !acked {
		b.Fatalf("a message was not confirmed: %v", err)
	}
}

func (f *fixture) scrollAll(b *testing.B, order Job, want int) {
	b.Helper()
	selection, err := order.selection()
	if err != nil {
		b.Fatal(err)
	}
	read := 0
	for _, err := range f.store.Events(b.Context(), selection) {
		if err != nil {
			b.Fatal(err)
		}
		read++
	}
	if read != want {
		b.Fatalf("read %d", read)
	}
}
