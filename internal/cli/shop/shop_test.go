package shop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/watershipmq/watership/internal/rabbit"
)

// opened returns the messages that a shop publishes in its first two seconds.
func opened(t *testing.T, cfg Config) []string {
	t.Helper()
	var published []string
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
		defer stop()
		err := New(cfg).Open(ctx, func(_ context.Context, m rabbit.Message) (func(context.Context) error, error) {
			published = append(published, fmt.Sprint(m.Exchange, m.RoutingKey, m.Publishing.MessageId, m.Publishing.Headers, string(m.Publishing.Body)))
			return func(context.Context) error { return nil }, nil
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

// A broker that takes its time to confirm does not make orders fewer.
func TestSlowConfirms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
		defer stop()
		orders := 0
		err := New(Config{Rate: 50, First: 1}).Open(ctx, func(context.Context, rabbit.Message) (func(context.Context) error, error) {
			orders++
			sent := time.Now()
			return func(context.Context) error { time.Sleep(time.Until(sent.Add(time.Second))); return nil }, nil
		})
		if err != nil || orders < 90 {
			t.Errorf("%d orders in two seconds, %v", orders, err)
		}
	})
}

// Orders that a full broker held up for a while are made up for, at most those of a second.
func TestOrdersAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		orders := 0
		err := New(Config{Rate: 50, First: 1}).Open(ctx, func(context.Context, rabbit.Message) (func(context.Context) error, error) {
			if orders++; orders == 5 {
				time.Sleep(5 * time.Second)
			}
			return func(context.Context) error { return nil }, nil
		})
		if err != nil || orders < 300 || orders > 340 { // of 50 a second, with some changes
			t.Errorf("%d messages in ten seconds, five of them at rest, %v", orders, err)
		}
	})
}

// An order that the broker does not take ends the shop with its error.
func TestOrderThatIsRefused(t *testing.T) {
	refused := errors.New("refused")
	for name, send := range map[string]Send{
		"when it is sent": func(context.Context, rabbit.Message) (func(context.Context) error, error) { return nil, refused },
		"when it is confirmed": func(context.Context, rabbit.Message) (func(context.Context) error, error) {
			return func(context.Context) error { return refused }, nil
		},
	} {
		if err := New(Config{Rate: 1000}).Open(t.Context(), send); !errors.Is(err, refused) {
			t.Errorf("%s: %v", name, err)
		}
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
