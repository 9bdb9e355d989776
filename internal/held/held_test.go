package held

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// The log says that a message is held before it says that it no longer is.
func TestSlowConfirmIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &rabbittest.Log{}
		messages := New(prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "held"}, []string{"queue"}))
		o := Operation{Name: "publishing", Queue: "orders", Now: time.Now, Sleep: Sleep, Logger: log.Logger()}
		for _, confirmed := range []time.Duration{time.Second, 2 * slowAfter} {
			if err := messages.Publish(t.Context(), o, func() error { time.Sleep(confirmed); return nil }); err != nil {
				t.Error(err)
			}
		}
		if log.Count("the message is held") != 1 || log.Count("no longer held") != 1 {
			t.Error(log)
		}
	})
}
