package replayer

import (
	"bytes"
	"context"
	"fmt"
	"runtime/metrics"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/system/gctuning"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/replayer/transform"
	"github.com/watershipmq/watership/schemas"
)

// BenchmarkReplay replays messages of 1 KiB with 8 headers, and compares its rate with
// two others: a bare loop that publishes the same messages, with the same message
// states, from memory, and a loop that reads them from Elasticsearch. The ratio is to
// the slower loop, and each figure is the median of the rounds. A replay reads and
// publishes concurrently, and also publishes the `replayed` events and saves
// checkpoints; its rate counts messages.
//
// bare-µs, read-µs and replay-µs are the CPU time of this process for each message,
// without the servers. All three collect garbage as `watership replay` does; GOGC
// gives the setting (https://go.dev/doc/gc-guide).
//
// heap-MB is the largest heap during the replay: it should not depend on the number of
// messages, except for the set of sent messages.
func BenchmarkReplay(b *testing.B) {
	gctuning.Apply(gctuning.ReplayLimit)
	for _, kind := range []string{"classic", "quorum"} {
		for _, messages := range []int{20_000, 100_000} {
			b.Run(fmt.Sprintf("%s/%d", kind, messages), func(b *testing.B) { benchReplay(b, kind, messages) })
		}
	}
}

func benchReplay(b *testing.B, kind string, messages int) {
	f := newFixtureOn(b, rabbittest.NewestServer(b))
	f.useQueues(kind)
	f.storeBenchMessages(messages)
	order := f.job("")
	var publish, scroll, replay costs
	var ratios []float64
	var heap uint64
	for b.Loop() {
		f.empty()
		some := f.marked(f.benchMessages(0))
		publish.of(func() { f.publishBare(b, some, messages) })
		f.empty()
		scroll.of(func() { f.scrollAll(b, order, messages) })
		job := f.create(order)
		heap = max(heap, heapDuring(func() {
			replay.of(func() {
				if ran := f.resume(job, RunOptions{}); ran.Sent != messages {
					b.Fatalf("sent %d", ran.Sent)
				}
			})
		}))
		ratios = append(ratios, float64(max(publish.last().clock, scroll.last().clock))/float64(replay.last().clock))
	}
	b.ReportMetric(publish.rate(messages), "published/s")
	b.ReportMetric(scroll.rate(messages), "read/s")
	b.ReportMetric(replay.rate(messages), "replayed/s")
	b.ReportMetric(median(ratios), "ratio")
	b.ReportMetric(publish.each(messages), "bare-µs")
	b.ReportMetric(scroll.each(messages), "read-µs")
	b.ReportMetric(replay.each(messages), "replay-µs")
	b.ReportMetric(gogc(), "GOGC")
	b.ReportMetric(float64(heap)/1e6, "heap-MB")
	b.ReportMetric(0, "ns/op")
	f.empty()
}

// BenchmarkTransformedReplay replays messages of 1 KiB with 8 headers through a program.
func BenchmarkTransformedReplay(b *testing.B) {
	gctuning.Apply(gctuning.ReplayLimit)
	const messages = 20_000
	f := newFixtureOn(b, rabbittest.NewestServer(b))
	f.useQueues("quorum")
	f.storeBenchMessages(messages)
	programs := transform.NewProcesses()
	b.Cleanup(programs.Close)
	f.cfg.Programs = programs
	order := f.job("")
	order.Transform, order.Again = `.body.currency = "EUR"`, true
	var replay costs
	for b.Loop() {
		f.empty()
		job := f.create(order)
		replay.of(func() {
			if ran := f.resume(job, RunOptions{}); ran.Sent != messages {
				b.Fatalf("sent %d", ran.Sent)
			}
		})
	}
	b.ReportMetric(replay.rate(messages), "replayed/s")
	b.ReportMetric(replay.each(messages), "replay-µs")
	b.ReportMetric(0, "ns/op")
	f.empty()
}

// useQueues declares the target and log queues with a queue type.
func (f *fixture) useQueues(kind string) {
	f.t.Helper()
	for queue, exchange := range map[string]string{f.queue: f.exchange, f.cfg.Topology.Log(): f.cfg.Topology.Events()} {
		if _, err := f.channel.QueueDelete(queue, false, false, false); err != nil {
			f.t.Fatal(err)
		}
		f.bind(queue, exchange, "#", amqp.Table{"x-queue-type": kind})
	}
}

// benchMany messages are stored at once, and published repeatedly by the bare loop:
// all messages would be most of the heap.
const benchMany = 10_000

func (f *fixture) storeBenchMessages(messages int) {
	f.t.Helper()
	for begin := 0; begin < messages; begin += benchMany {
		events := make([]schemas.Event, benchMany)
		for n, e := range f.benchMessages(begin) {
			events[n] = f.event(schemas.Published, e)
		}
		f.storeEvents(events...)
	}
}

func (f *fixture) benchMessages(begin int) []schemas.Envelope {
	messages := make([]schemas.Envelope, benchMany)
	for n := range messages {
		e := f.message(begin + n)
		e.Body = fmt.Appendf(nil, `{"order":%d,"text":"%s"}`, n, bytes.Repeat([]byte("x"), 1000))
		for h := range 6 {
			e.Headers[fmt.Sprint("header-", h)] = fmt.Sprint("value of header ", h)
		}
		messages[n] = e
	}
	return messages
}

// cost is the wall time and CPU time of one round.
type cost struct{ clock, cpu time.Duration }

// costs are the costs of all rounds.
type costs []cost

func (c *costs) of(do func()) {
	began, used := time.Now(), ownCPU()
	do()
	*c = append(*c, cost{time.Since(began), ownCPU() - used})
}

func (c costs) last() cost { return c[len(c)-1] }

// rate returns messages a second, the median of the rounds.
func (c costs) rate(messages int) float64 {
	return c.median(func(turn cost) float64 { return float64(messages) / turn.clock.Seconds() })
}

// each returns the CPU time of a message in microseconds, the median of the rounds.
func (c costs) each(messages int) float64 {
	return c.median(func(turn cost) float64 { return turn.cpu.Seconds() * 1e6 / float64(messages) })
}

func (c costs) median(of func(cost) float64) float64 {
	figures := make([]float64, len(c))
	for i, turn := range c {
		figures[i] = of(turn)
	}
	return median(figures)
}

func median(figures []float64) float64 {
	slices.Sort(figures)
	n := len(figures)
	return (figures[(n-1)/2] + figures[n/2]) / 2
}

func ownCPU() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func gogc() float64 {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return float64(sample[0].Value.Uint64())
}

// heapDuring returns the largest heap in bytes while do runs, garbage included.
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

// marked returns the messages as a replay publishes them.
func (f *fixture) marked(messages []schemas.Envelope) []rabbit.Message {
	list := make([]rabbit.Message, len(messages))
	for n, e := range messages {
		mark := schemas.State{Fingerprint: e.Fingerprint(), Replay: f.cfg.NewID(), ReplayOf: fmt.Sprintf("%s:%d", f.source, f.sequence)}
		list[n] = rabbit.Message{Exchange: e.Exchange, RoutingKey: e.RoutingKey, Publishing: wire.DefaultFrameMax.WrapForExchange(e, mark, f.login)}
	}
	return list
}

// publishBare publishes with the client library alone, with as many unconfirmed
// messages as a replay.
func (f *fixture) publishBare(b *testing.B, some []rabbit.Message, messages int) {
	b.Helper()
	channel := f.broker.Channel(b)
	if err := channel.Confirm(false); err != nil {
		b.Fatal(err)
	}
	onTheWay := make([]*amqp.DeferredConfirmation, 0, messages)
	for n := range messages + maxUnconfirmed {
		if n >= maxUnconfirmed {
			f.wantConfirmed(b, onTheWay[n-maxUnconfirmed])
		}
		if n < messages {
			m := some[n%len(some)]
			confirm, err := channel.PublishWithDeferredConfirm(m.Exchange, m.RoutingKey, true, false, m.Publishing)
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
	selection, err := order.Selection()
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
