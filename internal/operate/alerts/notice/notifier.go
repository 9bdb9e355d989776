package notice

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/watershipmq/watership/eventstore"
)

// Rule finds alerts.
type Rule struct {
	Name     string
	On       string // kind of its condition
	Severity string
	Labels   map[string]string
	For      time.Duration // how long a condition holds before its alert fires
	Every    time.Duration // between two evaluations

	Receivers []string

	// Evaluate returns the alerts that hold now. memory is as the latest evaluation in any
	// process returned it; nil: none did. An error leaves the alerts of the rule as they are.
	Evaluate func(ctx context.Context, memory json.RawMessage) (found []Alert, next json.RawMessage, err error)
}

// Receiver takes notices.
type Receiver struct {
	Name string
	Pace
	Send func(ctx context.Context, n Notice) error
}

// Config configures a Notifier. All fields but Logger and Registerer are required.
type Config struct {
	Store   eventstore.RecordStore // keeps the state of the alerts
	Source  string
	Process string // unique name of this process
	Link    string // console page of alerts; "": none

	Logger     *slog.Logger          // nil: no logs
	Registerer prometheus.Registerer // nil: no metrics
}

// Notifier evaluates rules and notifies receivers, while it holds the lease.
type Notifier struct {
	Config
	metrics *metrics // nil before the first rule

	mu      sync.Mutex // guards the fields below
	set     Set
	changed chan struct{} // closed when set is replaced
}

// Set has the rules and the receivers of a configuration.
type Set struct {
	Rules     []Rule
	Receivers []Receiver
}

// New returns a Notifier without rules. It does nothing until Run.
func New(cfg Config) *Notifier {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Notifier{Config: cfg, changed: make(chan struct{})}
}

// Replace replaces the rules and the receivers, also while the Notifier runs. Alerts of rules
// that there are no more end; all others and what receivers were told of them stay.
func (n *Notifier) Replace(set Set) {
	n.mu.Lock()
	defer n.mu.Unlock()
	close(n.changed)
	n.set, n.changed = set, make(chan struct{})
}

func (n *Notifier) current() (Set, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.set, n.changed
}

// Run waits for rules and for the lease, and then evaluates and notifies until ctx ends or
// another process has taken the lease over. Then it waits again.
func (n *Notifier) Run(ctx context.Context) {
	for ctx.Err() == nil {
		set, changed := n.current()
		if len(set.Rules) == 0 && n.metrics == nil {
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		if n.metrics == nil {
			n.metrics = newMetrics(n.Registerer)
		}
		n.runWith(ctx, set, changed)
	}
}

// runWith runs until ctx ends or the rules change.
func (n *Notifier) runWith(ctx context.Context, set Set, changed <-chan struct{}) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-changed:
			stop()
		case <-ctx.Done():
		}
	})
	defer watch.Wait()
	defer stop()
	for ctx.Err() == nil {
		state, version, claimed := n.claim(ctx)
		if !claimed {
			return
		}
		n.Logger.Info("this process sends the alerts", "source", n.Source)
		s := &session{Notifier: n, Set: set, state: state, version: version, started: map[string]time.Time{}, running: map[string]bool{}}
		s.run(ctx)
	}
}

// metrics of a process.
type metrics struct {
	held    prometheus.Gauge
	alerts  *prometheus.GaugeVec
	notices *prometheus.CounterVec
	failed  *prometheus.CounterVec
}

func newMetrics(to prometheus.Registerer) *metrics {
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "watership", Subsystem: "alerts", Name: name, Help: help}
	}
	m := &metrics{
		held:    prometheus.NewGauge(prometheus.GaugeOpts(opts("held", "1 if this process evaluates the rules of alerts and sends them."))),
		alerts:  prometheus.NewGaugeVec(prometheus.GaugeOpts(opts("firing", "Alerts that fire, in the process that sends them.")), []string{"rule", "severity"}),
		notices: prometheus.NewCounterVec(prometheus.CounterOpts(opts("notices_total", "Notices to receivers, by result: taken or refused.")), []string{"receiver", "result"}),
		failed:  prometheus.NewCounterVec(prometheus.CounterOpts(opts("evaluation_failures_total", "Evaluations of rules that failed.")), []string{"rule"}),
	}
	if to != nil {
		to.MustRegister(m.held, m.alerts, m.notices, m.failed)
	}
	return m
}

func (m *metrics) count(state *State, rules []Rule) {
	m.alerts.Reset()
	for _, rule := range rules {
		m.alerts.WithLabelValues(rule.Name, rule.Severity).Set(0)
	}
	for _, t := range state.Alerts {
		if t.fires() {
			m.alerts.WithLabelValues(t.Rule, t.Severity).Inc()
		}
	}
}
