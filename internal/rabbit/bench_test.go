package rabbit

import (
	"sync"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

const (
	benchMessages = 40_000
	benchWindow   = 1000
	benchBody     = 1024 // bytes
)

// BenchmarkPublish compares, in one run, a bare client loop with the same window
// of confirms, this publisher fed by one goroutine, and by as many as the window.
//
//	go test -run '^$' -bench Publish -benchtime 3x ./internal/rabbit
func BenchmarkPublish(b *testing.B) {
	broker := rabbittest.Newest(b)
	for _, kind := range []string{"classic", "quorum"} {
		for _, way := range []struct {
			name string
			run  func(*testing.B, rabbittest.Broker, string)
		}{{"bare", benchBare}, {"send", benchSend}, {"publish", benchPublish}} {
			b.Run(kind+"/"+way.name, func(b *testing.B) {
				queue := broker.Queue(b, amqp.Table{"x-queue-type": kind, "x-max-length": 10})
				way.run(b, broker, queue)
				b.ReportMetric(float64(b.N)*benchMessages/b.Elapsed().Seconds(), "msg/s")
			})
		}
	}
}

func benchMessage(queue string) Message {
	return to(queue, string(make([]byte, benchBody)))
}

func benchBare(b *testing.B, broker rabbittest.Broker, queue string) {
	ch := broker.Channel(b)
	if err := ch.Confirm(false); err != nil {
		b.Fatal(err)
	}
	m := benchMessage(queue)
	for b.Loop() {
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

func benchSend(b *testing.B, broker rabbittest.Broker, queue string) {
	p := publisher(b, open(b, broker.URL, nil), benchWindow)
	ctx, m := b.Context(), benchMessage(queue)
	for b.Loop() {
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

func benchPublish(b *testing.B, broker rabbittest.Broker, queue string) {
	p := publisher(b, open(b, broker.URL, nil), benchWindow)
	ctx, m := b.Context(), benchMessage(queue)
	for b.Loop() {
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
