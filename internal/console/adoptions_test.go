package console_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/console"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// errorQueue is a queue with failures of Spring and a message of another form.
func errorQueue(t *testing.T, broker rabbittest.Broker, arguments amqp.Table) string {
	t.Helper()
	queue, channel := broker.Queue(t, arguments), broker.Channel(t)
	for n := range 4 {
		m := amqp.Publishing{MessageId: fmt.Sprint("spring-", n)}
		if n > 0 {
			m.Headers = amqp.Table{"x-exception-message": "no stock", "x-exception-stacktrace": "shop.<b>NoStock</b>: no stock\n"}
		}
		if err := channel.Publish("", queue, false, false, m); err != nil {
			t.Fatal(err)
		}
	}
	awaitLen(t, broker, queue, 4)
	return queue
}

func awaitLen(t *testing.T, broker rabbittest.Broker, queue string, n int) {
	t.Helper()
	for deadline := time.Now().Add(rabbittest.Timeout); broker.Len(t, queue) != n; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("queue %s has %d messages, want %d", queue, broker.Len(t, queue), n)
		}
	}
}

// An operator takes in an error queue after a preview, and sees its progress.
func TestAdoptions(t *testing.T) {
	t.Parallel()
	broker := rabbittest.Embedded(t)
	s := newSystem(t, "WATERSHIP_AMQP_URL="+broker.URL)
	queue := errorQueue(t, broker, nil)
	s.get(t, s.get(t, "/failures").link(t, "/adoptions")).want(t, http.StatusOK, "Error queues of other systems", "No error queue was taken in yet", "masstransit: ")
	form := url.Values{"queue": {queue}, "format": {"spring"}, "failed_queue": {"orders"}, "limit": {"x"}}
	s.post(t, "/adoptions/preview", form).want(t, http.StatusUnprocessableEntity, `limit "x": expected a number`)
	form.Set("limit", "")
	preview := s.post(t, "/adoptions/preview", form)
	preview.want(t, http.StatusOK, "Found 3 failures", "orders", "shop.<b>NoStock</b>", "1 message cannot be read in this format and stays in the queue")
	if strings.Contains(preview.text, "<b>NoStock") {
		t.Error("the name of an error is markup")
	}
	awaitLen(t, broker, queue, 4)
	s.post(t, "/adoptions/preview", url.Values{"queue": {"nobody"}, "format": {"spring"}}).want(t, http.StatusConflict, `there is no queue "nobody"`)

	action, form := preview.form(t, "Take in 4 messages")
	for expect, want := range map[string]string{"": "the form has no number of messages", "101": "is not the number of messages"} {
		other := maps.Clone(form)
		other.Set("expect", expect)
		s.post(t, action, other).want(t, http.StatusUnprocessableEntity, want)
	}
	awaitLen(t, broker, queue, 4)
	for range 2 { // as with a second click
		s.post(t, action, form).want(t, http.StatusOK, "Queue "+queue, "spring")
	}
	s.await(t, 3, "action: poisoned and queue: orders")
	awaitLen(t, broker, queue, 1)
	list := s.get(t, "/adoptions")
	for deadline := time.Now().Add(rabbittest.Timeout); !strings.Contains(list.words(t), "done "+queue); list = s.get(t, "/adoptions") {
		if time.Now().After(deadline) {
			t.Fatalf("it does not end: %s", list.words(t))
		}
		time.Sleep(50 * time.Millisecond)
	}
	if n := strings.Count(list.words(t), queue+" spring"); n != 1 {
		t.Errorf("%d adoptions are listed: %s", n, list.words(t))
	}
	page := s.get(t, list.link(t, "/adoptions/"))
	page.want(t, http.StatusOK, "done Took in 3 failures", "3 failures", "Operator local", "stays in the queue")
	s.get(t, page.link(t, "/failures?q=")).want(t, http.StatusOK, "no stock")
	s.get(t, "/adoptions/nobody").want(t, http.StatusNotFound, "there is no adoption nobody")

	pages, err := console.New(console.Config{API: s.api})
	if err != nil {
		t.Fatal(err)
	}
	viewer := serveAs(t, pages, access.Identity{Name: "vic", Role: access.Viewer}, "/adoptions")
	viewer.want(t, http.StatusOK, "done", queue)
	viewer.without(t, "Show the first messages")
}

// An adoption under way is shown with its progress, and cancelled.
func TestCancelAnAdoption(t *testing.T) {
	t.Parallel()
	broker := rabbittest.Embedded(t)
	s := newSystem(t, "WATERSHIP_AMQP_URL="+broker.URL)
	queue := errorQueue(t, broker, amqp.Table{"x-single-active-consumer": true})
	channel := broker.Channel(t) // it holds the queue, so that the adoption waits
	if err := channel.Qos(1, 0, false); err != nil {
		t.Fatal(err)
	}
	held, err := channel.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	rabbittest.Receive(t, held)
	page := s.post(t, "/adoptions", url.Values{"queue": {queue}, "format": {"spring"}, "failed_queue": {"orders"}, "expect": {"3"}})
	page.want(t, http.StatusOK, "running 0 of 3 messages taken in", "Cancel")
	action, form := page.form(t, "Cancel")
	for range 2 { // as with a second click
		page = s.post(t, action, form)
	}
	for deadline := time.Now().Add(rabbittest.Timeout); !strings.Contains(page.words(t), "cancelled Took in 0 failures"); page = s.get(t, page.Request.URL.Path) {
		if time.Now().After(deadline) {
			t.Fatalf("it does not end: %s", page.words(t))
		}
		time.Sleep(50 * time.Millisecond)
	}
	page.want(t, http.StatusOK, "Why it stopped by local")
}
