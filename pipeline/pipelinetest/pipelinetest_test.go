package pipelinetest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/broker"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/pipeline/pipelinetest"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

type order struct {
	ID   int
	Fail int // attempts that fail
}

// orders is a route that publishes an invoice for each order.
func orders() pipeline.Route {
	return pipeline.Route{
		Queue: "orders",
		Bind:  []pipeline.Binding{{Exchange: "shop", Key: "order.*"}},
		Handler: pipeline.JSON(func(ctx context.Context, o order) ([]*message.Message, error) {
			if retry.AttemptFrom(ctx).Number <= o.Fail {
				return nil, errors.New("not paid")
			}
			return []*message.Message{pipeline.NewMessage(schemas.Envelope{Body: fmt.Appendf(nil, "invoice %d", o.ID)})}, nil
		}),
		Publish: pipeline.Binding{Exchange: "billing", Key: "invoice"},
	}
}

func publish(p *pipelinetest.Pipeline, body string) *pipelinetest.Message {
	return p.Publish(schemas.Envelope{Exchange: "shop", RoutingKey: "order.created", Body: []byte(body)})
}

// The delays of the default policy are 41 s, which take no time in a bubble.
func TestSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pipelinetest.Start(t, pipeline.Config{Routes: []pipeline.Route{orders()}})
		began := time.Now()
		late, never, broken := publish(p, `{"ID":1,"Fail":2}`), publish(p, `{"ID":2,"Fail":9}`), publish(p, `{"ID":"x"}`)
		late.RetriedAfter(time.Second)
		if e := late.RetriedAfter(10 * time.Second); e.Attempt != 2 || e.Failure.Message != "not paid" {
			t.Errorf("%+v", e.State)
		}
		made := late.Handled()
		if len(made) != 1 || string(made[0].Body) != "invoice 1" || made[0].Exchange != "billing" || made[0].Properties.CorrelationID != late.ID {
			t.Errorf("outgoing %+v", made)
		}
		never.RetriedAfter(time.Second)
		never.RetriedAfter(10 * time.Second)
		never.RetriedAfter(30 * time.Second)
		if e := never.Poisoned(); e.Attempt != 4 {
			t.Errorf("%+v", e.State)
		}
		if took := time.Since(began); took < 41*time.Second || took > 42*time.Second {
			t.Errorf("it took %s", took)
		}
		if e := broken.Poisoned(); e.Failure.Class != "schema" || e.Attempt != 1 || !strings.Contains(e.Failure.Message, "cannot unmarshal string") {
			t.Errorf("%+v", e.State)
		}
	})
}

// A function decides about some failures, and leaves the others to the policy. Middleware wraps the handler.
func TestDecide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		route := orders()
		route.Decide = func(f retry.Failure) retry.Decision {
			switch f.Attempt {
			case 1:
				return retry.Decision{Action: retry.Retry, Delay: 90 * time.Second}
			case 5:
				return retry.Decision{Action: retry.Poison, Reason: "five are enough"}
			}
			return retry.Decision{}
		}
		route.Policy = &retry.Policy{First: time.Second, Factor: 1, Attempts: 9}
		traced := 0
		p := pipelinetest.Start(t, pipeline.Config{
			Routes: []pipeline.Route{route},
			Middleware: []message.HandlerMiddleware{func(next message.HandlerFunc) message.HandlerFunc {
				return func(msg *message.Message) ([]*message.Message, error) { traced++; return next(msg) }
			}},
		})
		m := publish(p, `{"Fail":9}`)
		began := time.Now()
		m.RetriedAfter(90 * time.Second)
		for range 3 {
			m.RetriedAfter(time.Second)
		}
		m.Poisoned()
		if took := time.Since(began); took < 93*time.Second || took > 94*time.Second || traced != 5 {
			t.Errorf("%d attempts took %s", traced, took)
		}
	})
}

// A function that panics or does not return leaves the decision to the policy, and the log says so.
func TestDecideFails(t *testing.T) {
	for want, decide := range map[string]func(retry.Failure) retry.Decision{
		"no decision":    func(retry.Failure) retry.Decision { panic("no decision") },
		"did not return": func(retry.Failure) retry.Decision { time.Sleep(time.Minute); return retry.Decision{} },
	} {
		synctest.Test(t, func(t *testing.T) {
			var logged bytes.Buffer
			route := orders()
			route.Decide = decide
			p := pipelinetest.Start(t, pipeline.Config{Routes: []pipeline.Route{route}, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
			began := time.Now()
			m := publish(p, `{"Fail":1}`)
			if e := m.RetriedAfter(time.Second); e.Failure.Message != "not paid" {
				t.Errorf("%s: %+v", want, e.State)
			}
			m.Handled()
			if took := time.Since(began); took > 15*time.Second || !strings.Contains(logged.String(), want) {
				t.Errorf("%s: it took %s, %s", want, took, &logged)
			}
			time.Sleep(time.Minute) // the calls of the function return
		})
	}
}

// A hook gets a copy of the message, and has its time also for the events of routes.
func TestHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := pipeline.Route{Queue: "stock", Breaker: &retry.Breaker{Messages: 1}, Handler: func(*message.Message) ([]*message.Message, error) {
			return nil, retry.Unavailable(errors.New("no connection"))
		}}
		var left time.Duration
		p := pipelinetest.Start(t, pipeline.Config{
			Routes: []pipeline.Route{orders(), down}, OnEventTimeout: time.Hour,
			OnEvent: func(ctx context.Context, e schemas.Event) error {
				if deadline, _ := ctx.Deadline(); e.Action == schemas.Paused {
					left = time.Until(deadline)
					return nil
				}
				e.Envelope.Headers["tier"] = "changed"
				copy(e.Envelope.Body, "changed")
				return nil
			},
		})
		m := p.Publish(schemas.Envelope{RoutingKey: "orders", Body: []byte(`{"ID":7,"Fail":1}`), Headers: amqp.Table{"tier": "gold"}})
		m.RetriedAfter(time.Second)
		if made := m.Handled(); len(made) != 1 || string(made[0].Body) != "invoice 7" {
			t.Errorf("%+v", made)
		}
		p.Publish(schemas.Envelope{RoutingKey: "stock", Headers: amqp.Table{"tier": "gold"}})
		p.Event(func(e schemas.Event) bool { return e.Action == schemas.Paused })
		synctest.Wait()
		if left != time.Hour {
			t.Errorf("the hook has %s", left)
		}
	})
}

// Outside of a bubble it is the same. Two queues get the message, of which one cannot reach its service.
func TestTwoQueues(t *testing.T) {
	down := pipeline.Route{
		Queue: "stock", Bind: []pipeline.Binding{{Exchange: "shop", Key: "#"}},
		Handler: func(*message.Message) ([]*message.Message, error) {
			return nil, retry.Unavailable(errors.New("no connection"))
		},
	}
	p := pipelinetest.Start(t, pipeline.Config{Routes: []pipeline.Route{orders(), down}, Breaker: retry.Breaker{Messages: 1}})
	m := publish(p, `{}`)
	m.At("orders").Handled()
	if e := m.At("stock").RetriedAfter(time.Second); e.Attempt != 0 {
		t.Errorf("%+v", e.State)
	}
	p.Event(func(e schemas.Event) bool { return e.Action == schemas.Paused && e.Queue == "stock" })
	if _, declared := p.Broker().QueueLengths("/")["stock"]; !declared {
		t.Error("the broker is another")
	}
}

// recorder is a test that records its failure.
type recorder struct {
	broker.TB
	failure string
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.failure = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// failure returns the failure of a test.
func failure(t *testing.T, test func(broker.TB)) string {
	r := &recorder{TB: t}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		test(r)
	}()
	<-ended
	return r.failure
}

func TestFailedAssertions(t *testing.T) {
	for want, assert := range map[string]func(*pipelinetest.Pipeline){
		"message-1, poisoned: it is retry_scheduled instead": func(p *pipelinetest.Pipeline) { publish(p, `{"Fail":1}`).Poisoned() },
		"message-1: retried after 1s, want 1m0s":             func(p *pipelinetest.Pipeline) { publish(p, `{"Fail":1}`).RetriedAfter(time.Minute) },
		"message-1, handled: not within 30s":                 func(p *pipelinetest.Pipeline) { publish(p, `{}`).At("stock").Handled() },
		"publishing message-1: ":                             func(p *pipelinetest.Pipeline) { p.Publish(schemas.Envelope{RoutingKey: "nobody"}) },
	} {
		synctest.Test(t, func(t *testing.T) {
			got := failure(t, func(r broker.TB) { assert(pipelinetest.Start(r, pipeline.Config{Routes: []pipeline.Route{orders()}})) })
			if !strings.HasPrefix(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}
