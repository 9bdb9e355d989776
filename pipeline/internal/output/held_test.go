package output

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// The log says that a message is held before it says that it no longer is.
func TestSlowConfirmIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &rabbittest.Log{}
		messages := NewHeld(prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "held"}, []string{"queue"}))
		o := Operation{Name: "publishing", Queue: "orders", Now: time.Now, Sleep: backoff.Sleep, Logger: log.Logger()}
		for _, confirmed := range []time.Duration{time.Second, 2 * shortHold} {
			if err := messages.Publish(t.Context(), o, func() error { time.Sleep(confirmed); return nil }); err != nil {
				t.Error(err)
			}
		}
		if log.Count("the message is held") != 1 || log.Count("no longer held") != 1 {
			t.Error(log)
		}
	})
}

// A broker that confirms nothing, as in a minority of a cluster, is known after the time of a held message.
func TestUnconfirmedMessageIsHeldSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		messages := NewHeld(prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "held"}, []string{"queue"}))
		o := Operation{Name: "publishing", Queue: "orders", Now: time.Now, Sleep: backoff.Sleep, Logger: slog.New(slog.DiscardHandler)}
		confirm, done := make(chan struct{}), make(chan error)
		go func() { done <- messages.Publish(t.Context(), o, func() error { <-confirm; return nil }) }()
		time.Sleep(shortHold - time.Millisecond)
		if err := messages.Err(time.Now()); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Millisecond)
		if err := messages.Err(time.Now()); err == nil || !strings.Contains(err.Error(), "for 10s: publishing: not confirmed") {
			t.Error(err)
		}
		close(confirm)
		if err := <-done; err != nil || messages.Err(time.Now()) != nil {
			t.Error(err, messages.Err(time.Now()))
		}
	})
}
