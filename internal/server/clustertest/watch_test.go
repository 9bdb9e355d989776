package clustertest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/backoff"
)

// watch looks at the cluster once a second.
type watch struct {
	mu     sync.Mutex // guards all
	ready  []readySample
	queues []queueSample
	alerts []time.Time // at which a process had the alerts
}

type readySample struct {
	at     time.Time
	node   node
	status int
	text   string
}

type queueSample struct {
	at     time.Time
	queues []queue
}

// watchCluster begins to watch, until the end of the test.
func watchCluster(t *testing.T) *watch {
	t.Helper()
	w := &watch{}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	look := func(every time.Duration, do func()) {
		all.Go(func() {
			for backoff.Sleep(ctx, every) == nil {
				do()
			}
		})
	}
	for _, n := range serves() {
		look(time.Second, func() {
			status, text := readiness(ctx, n)
			w.mu.Lock()
			defer w.mu.Unlock()
			w.ready = append(w.ready, readySample{time.Now(), n, status, text})
		})
		look(3*time.Second, func() {
			if metric(ctx, n, "watership_alerts_held") != "1" {
				return
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.alerts = append(w.alerts, time.Now())
		})
	}
	look(2*time.Second, func() {
		all, err := queues(ctx)
		if err != nil {
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.queues = append(w.queues, queueSample{time.Now(), all})
	})
	t.Cleanup(func() { cancel(); all.Wait() })
	return w
}

// unready returns the reasons for which processes were not ready between two times.
func (w *watch) unready(from, to time.Time, left ...node) (found []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.ready {
		if s.at.After(from) && s.at.Before(to) && s.status != http.StatusOK && !slices.Contains(left, s.node) {
			found = append(found, fmt.Sprintf("%s at %s: %d %s", s.node, s.at.UTC().Format(time.RFC3339), s.status, s.text))
		}
	}
	return found
}

// stuck returns the queues that had messages and no consumer for a minute after a time.
func (w *watch) stuck(after time.Time) (found []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	since := map[string]time.Time{}
	for _, s := range w.queues {
		if s.at.Before(after) {
			continue
		}
		for _, q := range s.queues {
			if q.Messages == 0 || q.Consumers > 0 || !needsConsumer(q.Name) {
				delete(since, q.Name)
				continue
			}
			if since[q.Name].IsZero() {
				since[q.Name] = s.at
			}
			if text := "the queue " + q.Name + " has messages and no consumer for a minute"; s.at.Sub(since[q.Name]) > time.Minute && !slices.Contains(found, text) {
				found = append(found, text)
			}
		}
	}
	return found
}

// needsConsumer is false for queues in which messages wait for their time or for an operator.
func needsConsumer(name string) bool {
	return name == "orders" || name == "ledger" ||
		slices.Contains([]string{"index", "index.late", "log", "due", "retry", "report", "poison"}, strings.TrimPrefix(name, "watership."))
}

// withoutAlerts returns the longest time in which no process had the alerts, as far as it was seen.
func (w *watch) withoutAlerts(from, to time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	longest, _ := gap(w.alerts, from, to)
	return longest
}
