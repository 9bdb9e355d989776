package rabbit

import (
	"slices"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

const (
	benchMessages = 20_000
	benchWindow   = 1000
	benchBody     = 1024 // bytes
)

// BenchmarkPublish compares a plain amqp091-go loop with the same window of
// confirms, a Publisher fed by one goroutine, and a Publisher fed by as many
// goroutines as the window. Each iteration is one round of all three, so that other
// load on the machine affects all of them; the figures are medians of the rounds.
func BenchmarkPublish(b *testing.B) {
	ways := []struct {
		name string
		make func(*testing.B, rabbittest.Broker, string) func()
	}{{"bare", benchBare}, {"send", benchSend}, {"publish", benchPublish}}
	broker := rabbittest.NewestServer(b)
	for _, kind := range []string{"classic", "quorum"} {
		b.Run(kind, func(b *testing.B) {
			queue := broker.Queue(b, amqp.Table{"x-queue-type": kind, "x-max-length": 10})
			rates := make([][]float64, len(ways))
			runs := make([]func(), len(ways))
			for i, way := range ways {
				runs[i] = way.make(b, broker, queue)
			}
			for b.Loop() {
				for i, run := range runs {
					start := time.Now()
					run()
					rates[i] = append(rates[i], benchMessages/time.Since(start).Seconds())
				}
			}
			bare := median(rates[0])
			for i, way := range ways {
				b.ReportMetric(median(rates[i]), way.name+"-msg/s")
				if i > 0 {
					b.ReportMetric(median(rates[i])/bare, way.name+"-times-bare")
				}
			}
			b.ReportMetric(0, "ns/op") // the sum of three variants has no meaning
		})
	}
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

func benchMessage(queue string) Message {
	return to(queue, string(make([]byte, benchBody)))
}

func benchBare(b *testing.B, broker rabbittest.Broker, queue string) func() {
	ch := broker.Channel(b)
	if err := ch.Confirm(false); err != nil {
		b.Fatal(err)
	}
	m := benchMessage(queue)
	return func() {
		var window [benchWindow]*amqp.DeferredConfirmation
		for i := range benchMessages + benchWindow {
			if confirm := window[i%benchWindow]; confirm != nil && !confirm.Wait() {
				b.Fatal("nacked")
			}
			if i >= benchMessages {
				window[i%benchWindow] = nil
				continue
			}
			confirm, err := ch.PublishWithDeferredConfirm("", queue, true, false, m.Publishing)
			if err != nil {
				b.Fatal(err)
			}
			window[i%benchWindow] = confirm
		}
	}
}

func benchSend(b *testing.B, broker rabbittest.Broker, queue string) func() {
	p := publisher(b, open(b, broker.URL, nil), benchWindow)
	ctx, m := b.Context(), benchMessage(queue)
	return func() {
		var window [benchWindow]*Pending
		for i := range benchMessages + benchWindow {
			if pending := window[i%benchWindow]; pending != nil {
				if err := pending.Wait(ctx); err != nil {
					b.Fatal(err)
				}
			}
			if i >= benchMessages {
				window[i%benchWindow] = nil
				continue
			}
			pending, err := p.Send(ctx, m)
			if err != nil {
				b.Fatal(err)
			}
			window[i%benchWindow] = pending
		}
	}
}

func benchPublish(b *testing.B, broker rabbittest.Broker, queue string) func() {
	p := publisher(b, open(b, broker.URL, nil), benchWindow)
	ctx, m := b.Context(), benchMessage(queue)
	return func() {
		var callers sync.WaitGroup
		for range benchWindow {
			callers.Go(func() {
				for range benchMessages / benchWindow {
					if err := p.Publish(ctx, m); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		callers.Wait()
	}
}
