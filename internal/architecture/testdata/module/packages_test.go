package service_test

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v2/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"
	_ "modernc.org/sqlite"

	"github.com/watershipmq/watership/broker"
	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/elastic"
	"github.com/watershipmq/watership/eventstore/storetest"
	"github.com/watershipmq/watership/outbox"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/pipeline/bodyschema"
	"github.com/watershipmq/watership/pipeline/pipelinetest"
	"github.com/watershipmq/watership/pipeline/transport"
	"github.com/watershipmq/watership/pipeline/webhook"
	"github.com/watershipmq/watership/privacy"
	"github.com/watershipmq/watership/projection"
	"github.com/watershipmq/watership/replayer/shadow"
	"github.com/watershipmq/watership/replayer/transform"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/schemas/jsonscan"
	"github.com/watershipmq/watership/schemas/tablejson"
	"github.com/watershipmq/watership/streamid"
	"github.com/watershipmq/watership/subscription"
)

func TestTransport(t *testing.T) {
	cfg := wamqp.NewDurableQueueConfig(broker.Start(t, broker.Config{}).URL())
	subscriber, err := transport.NewSubscriber(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer subscriber.Close()
	publisher, err := transport.NewPublisher(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer publisher.Close()
	messages, err := subscriber.Subscribe(t.Context(), "orders")
	if err == nil {
		err = publisher.Publish("orders", message.NewMessage("17", []byte("a violin")))
	}
	if err != nil {
		t.Fatal(err)
	}
	order := <-messages
	if order.Ack(); string(order.Payload) != "a violin" {
		t.Errorf("got %s", order.Payload)
	}
}

func TestRedaction(t *testing.T) {
	keys, err := privacy.ParseHashKeys([]byte(strings.Repeat("0a", 32)))
	if err != nil {
		t.Fatal(err)
	}
	redactor, err := privacy.New(privacy.Config{Rules: []privacy.Rule{{Pattern: "mail"}}, HashKeys: keys})
	if err != nil {
		t.Fatal(err)
	}
	if got := redactor.Text("for ada@example.com"); got != "for "+redactor.Hashes("ada@example.com")[0] {
		t.Errorf("got %s", got)
	}
}

func TestRoute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pipelinetest.Start(t, pipeline.Config{Routes: []pipeline.Route{{
			Queue: "orders",
			Handler: pipeline.JSON(func(ctx context.Context, violins int) ([]*message.Message, error) {
				if retry.AttemptFrom(ctx).Number < violins {
					return nil, errors.New("one is made")
				}
				return nil, nil
			}),
		}}})
		order := p.Publish(schemas.Envelope{RoutingKey: "orders", Body: []byte("2")})
		order.RetriedAfter(time.Second)
		order.Handled()
	})
}

func TestWebhook(t *testing.T) {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooEarly) }))
	defer service.Close()
	handler := webhook.New(webhook.Config{URL: service.URL, Answers: []webhook.Answer{{Status: "425", Class: "ordering"}}})
	if _, err := handler(message.NewMessage("17", nil)); retry.ClassOf(err) != "ordering" {
		t.Errorf("got %v", err)
	}
}

func TestBodySchema(t *testing.T) {
	file := filepath.Join(t.TempDir(), "order.json")
	if err := os.WriteFile(file, []byte(`{"type": "object"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	schema, err := bodyschema.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Check([]byte("[]")); retry.ClassOf(err) != bodyschema.Class {
		t.Errorf("got %v", err)
	}
}

func TestStore(t *testing.T) {
	storetest.RunHandovers(t, func(t *testing.T) storetest.Handovers { return newStore(t) })
}

func TestSubscription(t *testing.T) {
	reader := subscription.Reader{Store: newStore(t), Source: "shop"}
	for item, err := range reader.Items(t.Context(), eventstore.Cursor{}) {
		if err != nil || !item.CaughtUp {
			t.Errorf("read %+v, %v", item, err)
		}
		break
	}
}

// An event gets a row of a projection and a message of the outbox in one transaction.
func TestProjectionAndOutbox(t *testing.T) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "keys.db")+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := outbox.Install(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	store := newStore(t)
	if _, err := store.CreateRecord(t.Context(), eventstore.WatermarkRecord, "shop", []byte(`{"source": "shop"}`)); err != nil { // as an indexer does
		t.Fatal(err)
	}
	keys, err := projection.New(projection.Config{
		Name: "keys", Version: 1, Tables: []string{"keys"}, DB: db,
		Reader: subscription.Reader{Store: store, Source: "shop"},
		Create: func(ctx context.Context, tx *sql.Tx, tables projection.Tables) error {
			_, err := tx.ExecContext(ctx, "CREATE TABLE "+tables.Name("keys")+" (name TEXT PRIMARY KEY)")
			return err
		},
		Handle: func(ctx context.Context, tx *sql.Tx, _ projection.Tables, event schemas.Event) error {
			return outbox.Publish(ctx, tx, event.Envelope)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if g, err := keys.Rebuild(t.Context()); err != nil || g.State != projection.Live {
		t.Errorf("%+v, %v", g, err)
	}
}

func TestElasticsearch(t *testing.T) {
	store, err := elastic.Open(elastic.Config{URLs: []string{"http://localhost:9200"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}

func TestStreams(t *testing.T) {
	streams, err := streamid.New(streamid.Rule{ID: "order-{routing_key.-1}"})
	if err != nil {
		t.Fatal(err)
	}
	if found := streams(schemas.Envelope{RoutingKey: "order.17"}); found.ID != "order-17" {
		t.Errorf("got %+v", found)
	}
}

func TestHeadersAsJSON(t *testing.T) {
	text := tablejson.Append(nil, amqp.Table{"tenant": "acme"})
	r := jsonscan.New(text)
	if headers := tablejson.Read(r); r.Err() != nil || headers["tenant"] != "acme" {
		t.Errorf("%s is %v (%v)", text, headers, r.Err())
	}
}

func TestTransform(t *testing.T) {
	program, err := transform.Parse(`.routing_key = "order.v2"`)
	if err != nil {
		t.Fatal(err)
	}
	if order, keep, err := program.Apply(t.Context(), schemas.Envelope{}); err != nil || !keep || order.RoutingKey != "order.v2" {
		t.Errorf("got %+v, %v, %v", order, keep, err)
	}
}

func TestShadow(t *testing.T) {
	store := newStore(t)
	report, err := shadow.Run(t.Context(), shadow.Config{Store: store, Query: "*", Handler: func(context.Context, shadow.Message) (shadow.Result, error) {
		return shadow.Result{}, nil
	}})
	if err != nil || report.Compared != 0 {
		t.Errorf("got %+v, %v", report, err)
	}
}
