package pipeline

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/system/otlp"
)

// BenchmarkTracing measures the CPU of this process for a message without traces, and with a part of the messages in traces,
// in turns. The collector is another process, which answers at once; the handler returns at once.
func BenchmarkTracing(b *testing.B) {
	broker, collector := rabbittest.NewestServer(b), startService(b)
	used := map[float64]time.Duration{}
	samples, turns := []float64{-1, 0.01, 0.1, 1}, 0
	for b.Loop() {
		for i := range samples { // each is the first, the second and so on in turn
			sample := samples[(i+turns)%len(samples)]
			used[sample] += handleTraced(b, broker, collector, sample)
		}
		turns++
	}
	without := float64(used[-1])
	b.ReportMetric(without/1e3/float64(turns*benchMessages), "off-µs")
	for _, sample := range samples[1:] {
		b.ReportMetric(100*(float64(used[sample])/without-1), fmt.Sprintf("more-%%-at-%v", sample))
	}
	b.ReportMetric(0, "ns/op")
}

// handleTraced returns the CPU of handling messages, of which a part is in traces; without any for less than 0.
func handleTraced(b *testing.B, broker rabbittest.Broker, collector string, sample float64) time.Duration {
	logger := slog.New(slog.DiscardHandler)
	exporters := (*otlp.Exporters)(nil)
	if sample >= 0 {
		var err error
		if exporters, err = otlp.Open(b.Context(), otlp.Config{Endpoint: collector, Sample: sample, Logger: logger}); err != nil {
			b.Fatal(err)
		}
	}
	registry := prometheus.NewRegistry()
	meter, err := exporters.ExportMetrics(b.Context(), registry, registry)
	if err != nil {
		b.Fatal(err)
	}
	var left atomic.Int64
	left.Store(benchMessages)
	done, queue, exchange := make(chan struct{}), rabbittest.Name(b), topicExchange(b, broker)
	r := startSilent(b, broker, func(c *Config) {
		c.QueueType, c.Logger = Quorum, logger
		c.TracerProvider, c.MeterProvider = exporters.TracerProvider(), meter
		c.Tap = []Tap{{Exchange: exchange, Type: "topic"}}
		c.Routes = []Route{{Queue: queue, Bind: []Binding{{exchange, "#"}}, Concurrency: benchConcurrency, Handler: func(*message.Message) ([]*message.Message, error) {
			if left.Add(-1) == 0 {
				close(done)
			}
			return nil, nil
		}}}
	})
	if err := r.stop(); err != nil {
		b.Fatal(err)
	}
	fill(b, r, exchange, "order", queue)
	began := processCPU(b)
	r.run()
	<-done
	if err := r.stop(); err != nil {
		b.Fatal(err)
	}
	if err := exporters.Close(); err != nil {
		b.Fatal(err)
	}
	used := processCPU(b) - began
	r.deleteTopology()
	return used
}
