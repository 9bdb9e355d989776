package shop

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/watershipmq/watership/internal/rabbit"
)

// opened is what a shop publishes in its first two seconds.
func opened(t *testing.T, cfg Config) []string {
	t.Helper()
	var published []string
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
		defer stop()
		err := New(cfg).Open(ctx, func(_ context.Context, m rabbit.Message) error {
			published = append(published, fmt.Sprint(m.Exchange, m.RoutingKey, m.Publishing.MessageId, m.Publishing.Headers, string(m.Publishing.Body)))
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	return published
}

// The same seed gives the same messages, and another gives others.
func TestSeed(t *testing.T) {
	cfg := Config{Seed: 3, Rate: 50, First: 1}
	want := opened(t, cfg)
	if got := opened(t, cfg); !slices.Equal(got, want) {
		t.Errorf("got %q, and before %q", got, want)
	}
	cfg.Seed = 4
	if got := opened(t, cfg); slices.Equal(got, want) {
		t.Errorf("seeds 3 and 4 both give %q", got)
	}
}

// Orders come at the rate, from the first number on.
func TestRate(t *testing.T) {
	for _, rate := range []float64{0.5, 7, 200} {
		orders := 0
		for _, message := range opened(t, Config{Rate: rate, First: 100}) {
			if strings.HasPrefix(message, Orders+orderPlaced+OrderID(100+orders)+"map[") {
				orders++
			}
		}
		if want := int(2 * rate); orders < want || orders > want+1 {
			t.Errorf("%v a second: %d orders in two seconds, in order from the first on", rate, orders)
		}
	}
}
