package replayer

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/schemas"
)

// BenchmarkReplay replays messages of 1 KiB with 8 headers, and compares the
// rate with that of a bare loop that publishes the same from memory with
// confirms, and with that of reading them from Elasticsearch. The ratio is to
// the lower of the two.
func BenchmarkReplay(b *testing.B) {
	f := newFixture(b)
	const messages = 20_000
	events := make([]schemas.Event, messages)
	for n := range events {
		e := f.message(n)
		e.Body = fmt.Appendf(nil, `{"order":%d,"text":"%s"}`, n, bytes.Repeat([]byte("x"), 1000))
		for h := range 6 {
			e.Headers[fmt.Sprint("header-", h)] = fmt.Sprint("value of header ", h)
		}
		events[n] = f.event(schemas.Published, e)
	}
	f.keep(events...)
	order := f.job("")
	var publish, scroll, replay time.Duration
	for b.Loop() {
		f.empty()
		publish += timed(func() { f.publishAll(b, events) })
		f.empty()
		scroll += timed(func() { f.scrollAll(b, order, messages) })
		job := f.begin(order)
		replay += timed(func() {
			if ran := f.resume(job, RunOptions{}); ran.Sent != messages {
				b.Fatalf("sent %d", ran.Sent)
			}
		})
	}
	rate := func(d time.Duration) float64 { return messages * float64(b.N) / d.Seconds() }
	b.ReportMetric(rate(publish), "published/s")
	b.ReportMetric(rate(scroll), "read/s")
	b.ReportMetric(rate(replay), "replayed/s")
	b.ReportMetric(rate(replay)/min(rate(publish), rate(scroll)), "ratio")
	b.ReportMetric(0, "ns/op")
	f.empty()
}

func timed(do func()) time.Duration {
	runtime.GC()
	began := time.Now()
	do()
	return time.Since(began)
}

func (f *fixture) empty() {
	f.t.Helper()
	for _, queue := range []string{f.queue, f.cfg.Topology.Log()} {
		if _, err := f.channel.QueuePurge(queue, false); err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f *fixture) publishAll(b *testing.B, events []schemas.Event) {
	b.Helper()
	conn, err := rabbit.Open(f.cfg.Broker)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	publisher := rabbit.NewPublisher(conn, rabbit.PublisherConfig{Window: window})
	defer publisher.Close()
	pending := make(chan *rabbit.Pending, window)
	done := make(chan error, 1)
	go func() {
		for p := range pending {
			if err := p.Wait(b.Context()); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for _, e := range events {
		p, err := publisher.Send(b.Context(), rabbit.Message{
			Exchange: e.Envelope.Exchange, RoutingKey: e.Envelope.RoutingKey, Publishing: e.Envelope.Publishing(),
		})
		if err != nil {
			b.Fatal(err)
		}
		pending <- p
	}
	close(pending)
	if err := <-done; err != nil {
		b.Fatal(err)
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
