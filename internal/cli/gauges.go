package cli

import (
	"context"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/watershipmq/watership/internal/rabbit"
)

// gauges are the metrics that are asked for when somebody looks at them.
type gauges struct {
	*vitals
	watching *rabbit.Connection

	up       *prometheus.GaugeVec
	messages *prometheus.GaugeVec
	lag      *prometheus.GaugeVec
}

func newGauges(v *vitals, watching *rabbit.Connection) *gauges {
	factory := promauto.With(v.registry)
	gauge := func(name, help, label string) *prometheus.GaugeVec {
		return factory.NewGaugeVec(prometheus.GaugeOpts{Namespace: "watership", Name: name, Help: help}, []string{label})
	}
	v.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	gauge("build_info", "1; the version is a label.", "version").WithLabelValues(version()).Set(1)
	return &gauges{
		vitals: v, watching: watching,
		up:       gauge("server_up", "Whether the broker is connected, and the store answers and has our templates.", "server"),
		messages: gauge("queue_messages", "Messages of a queue of ours that are not handed out. Those of index, index.late and log are what the store lags behind.", "queue"),
		lag:      gauge("index_lag_seconds", "How long ago what was published last is in the store, while more waits; 0 while nothing does.", "queue"),
	}
}

// look asks the servers side by side, since one that is away takes its time.
// What cannot be found out now is left out.
func (g *gauges) look(ctx context.Context) {
	var asking sync.WaitGroup
	asking.Go(func() { g.set("store", g.store.Check(ctx)) })
	g.set("broker", g.brokerThere())
	g.messages.Reset()
	g.lag.Reset()
	if g.watching.Err() == nil {
		g.lookAtQueues(ctx)
	}
	asking.Wait()
}

func (g *gauges) lookAtQueues(ctx context.Context) {
	for _, queue := range g.topology.Queues() {
		messages, err := g.waiting(ctx, queue)
		if err != nil {
			continue
		}
		g.messages.WithLabelValues(queue).Set(float64(messages))
		if slices.Contains(g.topology.Indexed(), queue) {
			g.lag.WithLabelValues(queue).Set(g.behind(queue, messages).Seconds())
		}
	}
}

func (g *gauges) waiting(ctx context.Context, queue string) (messages int, err error) {
	there, err := look(ctx, g.watching, queue)
	return there.Messages, err
}

func (g *gauges) set(server string, err error) {
	up := 1.0
	if err != nil {
		up = 0
	}
	g.up.WithLabelValues(server).Set(up)
}
