package pipeline

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// Rules choose the class of dead letters, reports and errors of Go handlers, and events
// name the rule. A class that an error or a report names wins, and a route's rules come
// before the others.
func TestRulesOfAPipeline(t *testing.T) {
	t.Parallel()
	b := rabbittest.Newest(t)
	dead, told, own := rabbittest.Name(t), rabbittest.Name(t), rabbittest.Name(t)
	once := &retry.Policy{Delays: []time.Duration{time.Hour}, Classes: map[string]retry.Policy{"once": {}, "stock": {}, "gold": {}, "own": {}}}
	r := start(t, b, func(c *Config) {
		c.Default = once
		c.Rules = []retry.Rule{
			{Name: "gold", Queue: dead, Headers: map[string]string{"tier": "gold*"}, Class: "gold"},
			{Name: "stock", ErrorType: "*StockError", Text: `no stock of \d+`, Class: "stock"},
			{Name: "text", Text: "no stock", Class: "once"},
		}
		c.Routes = []Route{{Queue: own, Rules: []retry.Rule{{Name: "of the route", Text: "^late", Class: "once"}}, Handler: handler(func(msg *message.Message) error {
			switch text := string(msg.Payload); text {
			case "own":
				return retry.Class("own", errors.New("no stock"))
			default:
				return errors.New(text)
			}
		})}}
	})
	for _, queue := range []string{dead, told} {
		declareFor(t, b, queue, amqp.Table{"x-dead-letter-exchange": r.topology.Retry()})
	}
	rejecting(t, b, dead)
	reporting(t, b, r.topology, told, func(d amqp.Delivery) amqp.Table {
		report := amqp.Table{"outcome": "retry", "error": string(d.Body), "error-type": "shop.StockError"}
		if string(d.Body) == "named" {
			report["class"] = "own"
		}
		return report
	})
	r.publish("", dead, amqp.Publishing{Body: []byte("x"), Headers: amqp.Table{"tier": "golden"}})
	for _, body := range []string{"no stock of 42", "named"} {
		r.publish("", told, amqp.Publishing{Body: []byte(body)})
	}
	for _, body := range []string{"own", "late, and no stock", "no stock"} {
		r.publish("", own, amqp.Publishing{Body: []byte(body)})
	}
	got := map[string]bool{}
	for _, e := range r.waitFor(6, schemas.Poisoned) { // each class has a single attempt
		got[fmt.Sprintf("%s: %s by %q", e.Envelope.Body, e.Failure.Class, e.Failure.Rule)] = true
	}
	for _, want := range []string{
		`x: gold by "gold"`, `no stock of 42: stock by "stock"`, `named: own by ""`, `own: own by ""`,
		`late, and no stock: once by "of the route"`, `no stock: once by "text"`,
	} {
		if !got[want] {
			t.Errorf("there is no event %s: %v", want, got)
		}
	}
}

func TestRulesAreChecked(t *testing.T) {
	mistake := []retry.Rule{{Name: "a", Text: "(", Class: "c"}}
	for want, cfg := range map[string]Config{
		"rules: [0].text (: expected a regular expression":                  {Rules: mistake},
		`the route of queue "a": [0].text (: expected a regular expression`: {Routes: []Route{{Queue: "a", Rules: mistake}}},
	} {
		cfg.URL, cfg.Standalone = "amqp://localhost", true
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got\n%v\nwant\n%s", err, want)
		}
	}
}
