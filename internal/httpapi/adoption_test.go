package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/operate/adoptions"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// failedBySpring fills a queue with failures of Spring and one message of another form.
func (s served) failedBySpring(t *testing.T, queue string, failures int) {
	t.Helper()
	channel := s.broker.Channel(t)
	for n := range failures + 1 {
		m := amqp.Publishing{MessageId: fmt.Sprint("spring-", n), Headers: amqp.Table{"x-exception-message": "no stock", "x-exception-stacktrace": "java.lang.IllegalStateException: no stock\n\tat Shop.java"}}
		if n == failures {
			m.Headers = nil
		}
		if err := channel.Publish("", queue, false, false, m); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the error queue is filled", func() bool { return s.broker.Len(t, queue) == failures+1 })
}

// TestAdoptions: an error queue is taken in after a preview, by a job with progress, within the
// limits of the caller.
func TestAdoptions(t *testing.T) { onEvery(t, testAdoptions) }

func testAdoptions(t *testing.T, s served) {
	queue := s.broker.Queue(t, nil)
	s.failedBySpring(t, queue, 3)
	request := fmt.Sprintf(`{"queue":%q,"format":"spring","failed_queue":"orders"}`, queue)
	preview := s.post(t, "/adoptions/preview", request)
	groups, _ := preview["groups"].([]any)
	if preview["failures"] != 3.0 || preview["unreadable"] != 1.0 || len(groups) != 1 || member(groups[0], "queue") != "orders" || member(groups[0], "error_type") != "java.lang.IllegalStateException" {
		t.Errorf("the preview is %v", preview)
	}
	eventually(t, "the preview returns the messages", func() bool { return s.broker.Len(t, queue) == 4 })

	started := s.do(t, http.MethodPost, "/adoptions", request, "Idempotency-Key", "once")
	again := s.do(t, http.MethodPost, "/adoptions", request, "Idempotency-Key", "once")
	id, _ := started.json(t)["id"].(string)
	if started.StatusCode != http.StatusAccepted || string(started.body) != string(again.body) || member(started.json(t), "total") != 4.0 {
		t.Fatalf("%s %s, again %s %s", started.Status, started.body, again.Status, again.body)
	}
	eventually(t, "the adoption ends", func() bool { return s.get(t, "/adoptions/"+id)["state"] != "running" })
	if a := s.get(t, "/adoptions/"+id); a["state"] != "done" || a["failures"] != 3.0 || a["unreadable"] != 1.0 || a["operator"] != "ada" {
		t.Errorf("it ended as %v", a)
	}
	eventually(t, "the failures are stored", func() bool {
		return s.get(t, "/events/count"+query("query", "action: poisoned and queue: orders"))["count"] == 3.0
	})
	s.do(t, http.MethodPost, "/adoptions/"+id+"/cancel", "{}").wantProblem(t, http.StatusConflict, "there is nothing left to cancel")
	s.do(t, http.MethodPost, "/adoptions", `{"queue":"nobody","format":"spring"}`).wantProblem(t, http.StatusConflict, `there is no queue "nobody"`)
	s.do(t, http.MethodPost, "/adoptions/preview", `{"queue":"watership.poison","format":"spring"}`).wantProblem(t, http.StatusConflict, "Watership's own")
	s.do(t, http.MethodGet, "/adoptions/nobody", "").wantProblem(t, http.StatusNotFound, "nobody")

	s.as(t, access.Token{Name: "vic", Role: access.Viewer}).do(t, http.MethodPost, "/adoptions/preview", request).wantProblem(t, http.StatusForbidden, "this needs operator")
	limited := s.as(t, access.Token{Name: "lim", Role: access.Operator, Queues: []string{queue, "orders"}})
	limited.post(t, "/adoptions/preview", request)
	for _, refused := range [][2]string{
		{fmt.Sprintf(`{"queue":%q,"format":"spring"}`, queue), "messages name the queues in which they failed"},
		{fmt.Sprintf(`{"queue":%q,"format":"spring","failed_queue":"invoices"}`, queue), "may not use the queue invoices"},
		{`{"queue":"elsewhere","format":"spring","failed_queue":"orders"}`, "may not use the queue elsewhere"},
	} {
		limited.do(t, http.MethodPost, "/adoptions", refused[0]).wantProblem(t, http.StatusForbidden, refused[1])
	}
	other := s.as(t, access.Token{Name: "oda", Role: access.Operator, Queues: []string{"invoices"}})
	other.do(t, http.MethodGet, "/adoptions/"+id, "").wantProblem(t, http.StatusNotFound, id)
	other.do(t, http.MethodPost, "/adoptions/"+id+"/cancel", "{}").wantProblem(t, http.StatusNotFound, id)
	for who, want := range map[*rig]int{&s.rig: 1, &limited: 1, &other: 0} {
		if list, _ := who.get(t, "/adoptions")["adoptions"].([]any); len(list) != want {
			t.Errorf("%d adoptions are listed, want %d: %v", len(list), want, list)
		}
	}
}

// Another process can cancel an adoption under way; what is left stays in the queue.
func TestCancelledAdoption(t *testing.T) {
	t.Parallel()
	s := newSystem(t, rabbittest.Embedded(t))
	queue := s.broker.Queue(t, amqp.Table{"x-single-active-consumer": true})
	s.failedBySpring(t, queue, 5)
	channel := s.broker.Channel(t) // it holds the queue, so that the adoption waits
	if err := channel.Qos(1, 0, false); err != nil {
		t.Fatal(err)
	}
	held, err := channel.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	first := rabbittest.Receive(t, held)
	id, _ := s.post(t, "/adoptions", fmt.Sprintf(`{"queue":%q,"format":"spring","failed_queue":"orders"}`, queue))["id"].(string)
	s.url = s.restart(t)
	if a := s.get(t, "/adoptions/"+id); a["state"] != "running" {
		t.Errorf("it is %v", a)
	}
	s.post(t, "/adoptions/"+id+"/cancel", "{}")
	s.post(t, "/adoptions/"+id+"/cancel", "{}") // changes nothing
	eventually(t, "it ends", func() bool { return s.get(t, "/adoptions/"+id)["state"] == "cancelled" })
	if a := s.get(t, "/adoptions/"+id); a["failures"] != 0.0 || a["problem"] != "by ada" || a["ended"] == nil {
		t.Errorf("it ended as %v", a)
	}
	if err := first.Nack(false, true); err != nil {
		t.Fatal(err)
	}
	if err := channel.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the messages are in the queue", func() bool { return s.broker.Len(t, queue) == 6 })
}

// The API has the formats of the command.
func TestFormatsOfAdoptions(t *testing.T) {
	t.Parallel()
	r := newRig(t, "sqlite:"+t.TempDir()+"/store.db")
	refused := r.do(t, http.MethodPost, "/adoptions", `{"queue":"errors","format":"none"}`)
	refused.wantProblem(t, http.StatusUnprocessableEntity, "validation")
	for _, format := range adoptions.Formats() {
		if !strings.Contains(string(refused.body), format.Name) {
			t.Errorf("the API does not have %s: %s", format.Name, refused.body)
		}
	}
}
