package server

import (
	"context"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/topology/role"
)

// gauges are the metrics that each scrape reads from the servers.
type gauges struct {
	*Server
	watching *rabbit.Connection

	up       *prometheus.GaugeVec
	messages *prometheus.GaugeVec
	lag      *prometheus.GaugeVec
}

func newGauges(s *Server, watching *rabbit.Connection) *gauges {
	factory := promauto.With(s.registry)
	gauge := func(name, help, label string) *prometheus.GaugeVec {
		return factory.NewGaugeVec(prometheus.GaugeOpts{Namespace: "watership", Name: name, Help: help}, []string{label})
	}
	s.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	gauge("build_info", "1; the version is a label.", "version").WithLabelValues(system.Version()).Set(1)
	return &gauges{
		Server: s, watching: watching,
		up:       gauge("server_up", "1 if the broker is connected, or if the store answers and has Watership's templates.", "server"),
		messages: gauge("queue_messages", "Messages ready in Watership's queues. Messages in index, index.late and log are not yet in the store.", "queue"),
		lag:      gauge("index_lag_seconds", "Age of the newest stored event while messages wait in the queue; 0 if none wait.", "queue"),
	}
}

// update asks the servers in parallel, since an unavailable one takes its time. It
// leaves out the gauges of queues that it cannot read.
func (g *gauges) update(ctx context.Context) {
	var requests sync.WaitGroup
	if g.has(role.Index) {
		requests.Go(func() { g.set("store", g.index.events.Check(ctx)) })
	}
	g.set("broker", g.brokerError())
	g.messages.Reset()
	g.lag.Reset()
	if g.watching.Err() == nil {
		g.updateQueues(ctx)
	}
	requests.Wait()
}

func (g *gauges) updateQueues(ctx context.Context) {
	for _, queue := range g.Topology().Queues() {
		state, err := readyState(ctx, g.watching, queue)
		if err != nil || state.Uncertain && g.consumes(queue) {
			continue
		}
		g.messages.WithLabelValues(queue).Set(float64(state.Messages))
		if slices.Contains(g.Topology().Indexed(), queue) {
			g.lag.WithLabelValues(queue).Set(g.index.lag(queue, state.Messages).Seconds())
		}
	}
}

// consumes reports whether a role of this process consumes a queue, which then has a consumer.
func (g *gauges) consumes(queue string) bool {
	return slices.ContainsFunc(role.All(), func(r role.Role) bool { return g.has(r) && slices.Contains(r.Queues(g.Topology()), queue) })
}

func (g *gauges) set(server string, err error) {
	up := 1.0
	if err != nil {
		up = 0
	}
	g.up.WithLabelValues(server).Set(up)
}
