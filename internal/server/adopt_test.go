package server_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v2/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/pipeline/transport"
	"github.com/watershipmq/watership/schemas"
)

// foreignFailure is an error queue that another system fills, with one failure.
type foreignFailure struct {
	queue, errors string // queues
	format        string

	// start starts a consumer of the queue that fails, and publishes a message to the exchange with the
	// key.
	start func(t *testing.T, i *servertest.Installation, f foreignFailure, key string)

	// wantType and wantText are parts of the error.
	wantType, wantText, wantStack string
	wantAttempts                  int

	originUnknown bool // the system does not record the exchange
}

// TestAdopt: what Spring, Celery, Symfony and Watermill put into their error queues becomes a failure
// like any other, part of the history of its message, and is replayed to its origin.
func TestAdopt(t *testing.T) {
	t.Parallel() // most of it is waiting
	systems := map[string]foreignFailure{
		"spring":        {format: "spring", start: startSpring, wantType: "java.lang.IllegalStateException", wantText: "no stock", wantStack: "Caused by", wantAttempts: 1},
		"celery":        {format: "celery", start: startCelery, wantType: "shop.ship", wantText: "task shop.ship: rejected", wantAttempts: 1},
		"symfony, JSON": {format: "symfony", start: startSymfony("json"), wantType: "RuntimeException", wantText: "no stock", wantStack: "symfony.php", wantAttempts: 1, originUnknown: true},
		"symfony, PHP":  {format: "symfony", start: startSymfony("php"), wantType: "RuntimeException", wantText: "no stock", wantStack: "symfony.php", wantAttempts: 1, originUnknown: true},
		"watermill":     {format: "watermill", start: startWatermill, wantType: "ship", wantText: "no stock", wantAttempts: 1, originUnknown: true},
	}
	if os.Getenv("WATERSHIP_TEST_SOAK") == "" {
		delete(systems, "symfony, JSON") // package adoptions reads its form
	}
	for name, f := range systems {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := servertest.Around(t, rabbittest.NewestServer(t)).Install(t, servertest.Nobody)
			i.Must(t, "setup")
			serving := i.Serve(t)
			f.queue, f.errors = i.Prefix+"-"+f.format, i.Prefix+"-"+f.format+".failed"
			declareErrorQueue(t, i, f)
			key := f.format + ".created"
			servertest.Bind(t, i.Broker, f.queue, i.Exchange, key)
			f.start(t, i, f, key)
			i.AwaitLen(t, f.errors, 1)

			if out := i.Must(t, "adopt", f.errors, "--as", f.format, "--queue", f.queue, "--dry-run"); !strings.Contains(out, "found 1 failure") || !strings.Contains(out, f.wantType) {
				t.Errorf("a dry run says %s", out)
			}
			i.AwaitLen(t, f.errors, 1)
			if out := i.Must(t, "adopt", f.errors, "--as", f.format, "--queue", f.queue, "--yes"); !strings.Contains(out, "took in 1 failure") {
				t.Errorf("it says %s", out)
			}
			poisoned := i.Eventually(t, "action: poisoned", 1)[0]
			why := poisoned.Failure
			if poisoned.Queue != f.queue || why.Type != f.wantType || !strings.Contains(why.Message, f.wantText) ||
				!strings.Contains(why.Stack, f.wantStack) || poisoned.Attempt != f.wantAttempts {
				t.Errorf("poisoned at queue %s, attempt %d: %+v", poisoned.Queue, poisoned.Attempt, why)
			}
			if f.originUnknown {
				if e := poisoned.Envelope; e.Exchange != "" || e.RoutingKey != f.queue {
					t.Errorf("the origin is %q, %q", e.Exchange, e.RoutingKey)
				}
			} else {
				published := i.Eventually(t, `action: published and fingerprint: "`+poisoned.Fingerprint+`"`, 1)[0]
				if e := published.Envelope; e.Exchange != i.Exchange || e.RoutingKey != key {
					t.Errorf("published to %q with %q", e.Exchange, e.RoutingKey)
				}
			}
			i.AwaitLen(t, f.errors, 0)
			i.Must(t, "replay", "action: poisoned", "--yes")
			i.AwaitLen(t, f.errors, 1) // the consumer fails again
			if again := i.Broker.Take(t, f.errors, 1)[0]; again.Headers["watership-replay-of"] != poisoned.EventID {
				t.Errorf("the consumer got %v, want a replay of %s", again.Headers, poisoned.EventID)
			}
			serving.Stop(t)
		})
	}
}

// declareErrorQueue declares the queue, whose dead letters go to the error queue.
func declareErrorQueue(t *testing.T, i *servertest.Installation, f foreignFailure) {
	t.Helper()
	channel := i.Broker.Channel(t)
	for queue, args := range map[string]amqp.Table{
		f.errors: nil,
		f.queue:  {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f.errors},
	} {
		if f.format != "celery" {
			args = nil
		}
		if _, err := channel.QueueDeclare(queue, true, false, false, false, args); err != nil {
			t.Fatal(err)
		}
		i.Broker.DeleteQueue(t, queue)
	}
}

func publishTo(t *testing.T, i *servertest.Installation, key string) {
	t.Helper()
	e := schemas.Envelope{
		Exchange: i.Exchange, RoutingKey: key, Body: []byte(`{"order": 7}`),
		Properties: schemas.Properties{MessageID: "order-7", ContentType: "application/json", DeliveryMode: amqp.Persistent},
		Headers:    amqp.Table{"tenant": "acme"},
	}
	if err := i.Broker.Channel(t).Publish(e.Exchange, e.RoutingKey, false, false, e.Publishing()); err != nil {
		t.Fatal(err)
	}
}

func startSpring(t *testing.T, i *servertest.Installation, f foreignFailure, key string) {
	jars := os.Getenv("WATERSHIP_TEST_SPRING")
	if jars == "" {
		servertest.Missing(t, `no Spring AMQP: WATERSHIP_TEST_SPRING is not set (eval "$(scripts/fixtures env)")`)
	}
	servertest.StartProgram(t, nil, "java", "-cp", jars+"/*", "testdata/Spring.java", strings.TrimSuffix(i.Broker.URL, "/"), f.queue, f.errors)
	publishTo(t, i, key)
}

func startCelery(t *testing.T, i *servertest.Installation, f foreignFailure, key string) {
	folder := os.Getenv("WATERSHIP_TEST_CELERY")
	if folder == "" {
		servertest.Missing(t, `no Celery: WATERSHIP_TEST_CELERY is not set (eval "$(scripts/fixtures env)")`)
	}
	servertest.StartProgram(t, []string{"PYTHONPATH=" + folder}, "python3", "testdata/celery_worker.py", i.Broker.URL, f.queue, i.Exchange, key)
}

// startSymfony starts a worker with one of Symfony's serializers: of the headers, or of the body.
func startSymfony(serializer string) func(*testing.T, *servertest.Installation, foreignFailure, string) {
	return func(t *testing.T, i *servertest.Installation, f foreignFailure, key string) {
		php := os.Getenv("WATERSHIP_TEST_PHP")
		if php == "" {
			servertest.Missing(t, `no Symfony: WATERSHIP_TEST_PHP is not set (eval "$(scripts/fixtures env)")`)
		}
		i.Broker.DeleteExchange(t, f.errors) // which Symfony declares
		url := strings.TrimSuffix(i.Broker.URL, "/") + "/%2f/messages"
		servertest.StartProgram(t, nil, php, "testdata/symfony.php", url, i.Exchange, key, f.queue, f.errors, serializer)
	}
}

func startWatermill(t *testing.T, i *servertest.Installation, f foreignFailure, key string) {
	cfg := wamqp.NewDurableQueueConfig(i.Broker.URL)
	publisher, err := wamqp.NewPublisher(cfg, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Marshaler = transport.Marshaler{} // Watermill's refuses headers that are no text, as replays have
	subscriber, err := wamqp.NewSubscriber(cfg, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: 10 * time.Second}, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	poison, err := middleware.PoisonQueue(publisher, f.errors)
	if err != nil {
		t.Fatal(err)
	}
	router.AddMiddleware(poison)
	router.AddConsumerHandler("ship", f.queue, subscriber, func(*message.Message) error { return errNoStock{} })
	ended := make(chan error, 1)
	go func() { ended <- router.Run(t.Context()) }()
	t.Cleanup(func() {
		_ = router.Close()
		<-ended
		_ = publisher.Close()
	})
	<-router.Running()
	e := message.NewMessage("order-7", []byte(`{"order": 7}`))
	marshaled, err := wamqp.DefaultMarshaler{}.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	if err := i.Broker.Channel(t).Publish(i.Exchange, key, false, false, marshaled); err != nil {
		t.Fatal(err)
	}
}

type errNoStock struct{}

func (errNoStock) Error() string { return "no stock" }
