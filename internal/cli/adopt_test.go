package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v2/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/pipeline/transport"
	"github.com/watershipmq/watership/schemas"
)

// foreignFailure is an error queue that another system fills, with one failure.
type foreignFailure struct {
	queue, errors string // queues
	format        string

	// start starts a consumer of the queue that fails, and publishes a message to the exchange with the
	// key.
	start func(t *testing.T, i *installation, f foreignFailure, key string)

	// wantType and wantText are parts of the error.
	wantType, wantText, wantStack string
	wantAttempts                  int

	originUnknown bool // the system does not record the exchange
}

// TestAdopt: what Spring, Celery and Watermill put into their error queues becomes a failure
// like any other, part of the history of its message, and is replayed to its origin.
func TestAdopt(t *testing.T) {
	t.Parallel() // most of it is waiting
	for name, f := range map[string]foreignFailure{
		"spring":    {format: "spring", start: startSpring, wantType: "java.lang.IllegalStateException", wantText: "no stock", wantStack: "Caused by", wantAttempts: 1},
		"celery":    {format: "celery", start: startCelery, wantType: "shop.ship", wantText: "task shop.ship: rejected", wantAttempts: 1},
		"watermill": {format: "watermill", start: startWatermill, wantType: "ship", wantText: "no stock", wantAttempts: 1, originUnknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := around(t, rabbittest.NewestServer(t)).install(t, nobody)
			i.must(t, "setup")
			serving := i.serve(t)
			f.queue, f.errors = i.prefix+"-"+name, i.prefix+"-"+name+".failed"
			i.declareErrorQueue(t, f)
			key := name + ".created"
			bind(t, i.broker, f.queue, i.exchange, key)
			f.start(t, i, f, key)
			i.awaitLen(t, f.errors, 1)

			if out := i.must(t, "adopt", f.errors, "--as", f.format, "--queue", f.queue, "--dry-run"); !strings.Contains(out, "found 1 failure") || !strings.Contains(out, f.wantType) {
				t.Errorf("a dry run says %s", out)
			}
			i.awaitLen(t, f.errors, 1)
			if out := i.must(t, "adopt", f.errors, "--as", f.format, "--queue", f.queue, "--yes"); !strings.Contains(out, "took in 1 failure") {
				t.Errorf("it says %s", out)
			}
			poisoned := i.eventually(t, "action: poisoned", 1)[0]
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
				published := i.eventually(t, `action: published and fingerprint: "`+poisoned.Fingerprint+`"`, 1)[0]
				if e := published.Envelope; e.Exchange != i.exchange || e.RoutingKey != key {
					t.Errorf("published to %q with %q", e.Exchange, e.RoutingKey)
				}
			}
			i.awaitLen(t, f.errors, 0)
			i.must(t, "replay", "action: poisoned", "--yes")
			i.awaitLen(t, f.errors, 1) // the consumer fails again
			if again := i.broker.Take(t, f.errors, 1)[0]; again.Headers["watership-replay-of"] != poisoned.EventID {
				t.Errorf("the consumer got %v, want a replay of %s", again.Headers, poisoned.EventID)
			}
			serving.stop(t)
		})
	}
}

func (i *installation) awaitLen(t *testing.T, queue string, n int) {
	t.Helper()
	until(t, "messages in queue "+queue, func() bool { return i.broker.Len(t, queue) == n })
}

// declareErrorQueue declares the queue, whose dead letters go to the error queue.
func (i *installation) declareErrorQueue(t *testing.T, f foreignFailure) {
	t.Helper()
	channel := i.broker.Channel(t)
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
		i.broker.DeleteQueue(t, queue)
	}
}

func (i *installation) publishTo(t *testing.T, key string) {
	t.Helper()
	e := schemas.Envelope{
		Exchange: i.exchange, RoutingKey: key, Body: []byte(`{"order": 7}`),
		Properties: schemas.Properties{MessageID: "order-7", ContentType: "application/json", DeliveryMode: amqp.Persistent},
		Headers:    amqp.Table{"tenant": "acme"},
	}
	if err := i.broker.Channel(t).Publish(e.Exchange, e.RoutingKey, false, false, e.Publishing()); err != nil {
		t.Fatal(err)
	}
}

// startProgram runs a program until the test ends, and returns a function for its output so far.
func startProgram(t *testing.T, environ []string, name string, args ...string) (output func() string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), environ...)
	log, err := os.Create(filepath.Join(t.TempDir(), "output"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	output = func() string {
		said, err := os.ReadFile(log.Name())
		if err != nil {
			t.Error(err)
		}
		return string(said)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s says:\n%s", name, output())
		}
		_ = log.Close()
	})
	return output
}

func startSpring(t *testing.T, i *installation, f foreignFailure, key string) {
	jars := os.Getenv("WATERSHIP_TEST_SPRING")
	if jars == "" {
		missing(t, `no Spring AMQP: WATERSHIP_TEST_SPRING is not set (eval "$(scripts/fixtures env)")`)
	}
	startProgram(t, nil, "java", "-cp", jars+"/*", "testdata/Spring.java", strings.TrimSuffix(i.broker.URL, "/"), f.queue, f.errors)
	i.publishTo(t, key)
}

func startCelery(t *testing.T, i *installation, f foreignFailure, key string) {
	folder := os.Getenv("WATERSHIP_TEST_CELERY")
	if folder == "" {
		missing(t, `no Celery: WATERSHIP_TEST_CELERY is not set (eval "$(scripts/fixtures env)")`)
	}
	startProgram(t, []string{"PYTHONPATH=" + folder}, "python3", "testdata/celery_worker.py", i.broker.URL, f.queue, i.exchange, key)
}

func startWatermill(t *testing.T, i *installation, f foreignFailure, key string) {
	cfg := wamqp.NewDurableQueueConfig(i.broker.URL)
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
	if err := i.broker.Channel(t).Publish(i.exchange, key, false, false, marshaled); err != nil {
		t.Fatal(err)
	}
}

type errNoStock struct{}

func (errNoStock) Error() string { return "no stock" }
