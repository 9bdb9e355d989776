package pipeline

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/pipeline/webhook"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// A process that has no file left for a connection is not the fault of its
// messages, also where others succeed on connections that are open. None loses an
// attempt.
func TestRunningOutOfFilesIsNoAttempt(t *testing.T) {
	b := rabbittest.Newest(t)
	service, queue := newService(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }), b.Queue(t, nil)
	service.start()
	post := webhook.New(webhook.Config{URL: service.url()})
	var failures atomic.Int32
	r := start(t, b, func(c *Config) {
		c.Breaker = retry.Breaker{First: 50 * time.Millisecond, Cap: 100 * time.Millisecond}
		c.Routes = []Route{{Queue: queue, Policy: attemptsAfter(), Handler: func(msg *message.Message) ([]*message.Message, error) {
			if msg.Payload[0] == 's' { // has no need of the service
				return nil, nil
			}
			_, err := post(msg)
			if err != nil {
				failures.Add(1)
			}
			return nil, err
		}}}
	})
	restore := noMoreFiles(t)
	for i := range 20 {
		for _, body := range []string{"m", "s"} {
			body = fmt.Sprint(body, i)
			r.publish("", queue, amqp.Publishing{Body: []byte(body), MessageId: body})
		}
	}
	rabbittest.Eventually(t, "messages fail again and again", func() bool { return failures.Load() > 30 })
	restore()
	for _, e := range r.waitFor(40, schemas.Handled) {
		if e.Attempt != 1 {
			t.Errorf("%+v", e.State)
		}
	}
	if given := r.all(poisoned); len(given) > 0 {
		t.Errorf("%d messages are poison, such as %+v", len(given), given[0].State)
	}
}

// noMoreFiles lets the process open no further file until the returned function is
// called.
func noMoreFiles(t *testing.T) (restore func()) {
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	none := before
	none.Cur = 3
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	restore = func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(restore)
	return restore
}
