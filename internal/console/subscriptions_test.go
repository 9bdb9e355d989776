package console_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/watershipmq/watership/internal/console"
	"github.com/watershipmq/watership/internal/operate/subscriptions"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// An operator sees how far subscriptions are, and pauses, resumes, rewinds and deletes them.
func TestSubscriptions(t *testing.T) {
	t.Parallel()
	broker := rabbittest.Embedded(t)
	s := newSystem(t, "WATERSHIP_AMQP_URL="+broker.URL)
	s.get(t, "/subscriptions").want(t, http.StatusOK, "No subscriptions", "watership subscribe")
	queue := broker.Queue(t, nil)
	request := subscriptions.Request{Name: "search.index", Query: "action: published", From: "start", Queue: queue}
	if _, err := (subscriptions.Service{System: s.System}).Subscribe(t.Context(), request, subscriptions.Caller{Name: "ann"}); err != nil {
		t.Fatal(err)
	}
	s.publish(t, "order-1", "{}", nil)
	list := s.until(t, "/subscriptions", "active queue "+queue+" 1 none 0")
	path := list.link(t, "/subscriptions/search")
	page := s.until(t, path, "Lag none")
	page.want(t, http.StatusOK, "Subscription search.index", "State active", "Delivered 1", "To queue "+queue, "are parked", "by ann")
	act := func(button, name, value string, status int, texts ...string) {
		t.Helper()
		action, form := s.get(t, path).form(t, button)
		if name != "" {
			form.Set(name, value)
		}
		s.post(t, action, form).want(t, status, texts...)
	}
	act("Pause", "reason", " ", http.StatusUnprocessableEntity, "a pause needs a reason")
	act("Pause", "reason", "the <b>index</b> moves", http.StatusOK, "Paused.", "State paused the <b>index</b> moves", "by local")
	if strings.Contains(s.get(t, path).text, "<b>index") {
		t.Error("a reason is markup")
	}
	act("Rewind", "to", "someday", http.StatusBadRequest, "someday")
	act("Rewind", "to", "start", http.StatusOK, "It continues at the new position.")
	act("Change the upcast", "upcast", ".body |", http.StatusBadRequest, "the program cannot be parsed", ".body |")
	act("Change the upcast", "upcast", ". # <b>2</b>", http.StatusOK, "The next deliveries have the new upcast.", "Upcast version 1 . # <b>2</b>")
	act("Resume", "", "", http.StatusOK, "Resumed.", "State active")
	s.until(t, path, "Delivered 2")
	s.post(t, path+"/explode", url.Values{}).want(t, http.StatusNotFound, "no such page")
	s.get(t, "/subscriptions/nobody").want(t, http.StatusNotFound, "there is no subscription nobody Look for it on the page of all subscriptions.")

	pages, err := console.New(console.Config{API: s.api})
	if err != nil {
		t.Fatal(err)
	}
	viewer := serveAs(t, pages, access.Identity{Name: "vic", Role: access.Viewer}, path)
	viewer.want(t, http.StatusOK, "Delivered 2")
	viewer.without(t, "Actions", "Delete the subscription")
	limited := serveAs(t, pages, access.Identity{Name: "lim", Role: access.Operator, Queues: []string{"invoices"}}, path)
	limited.want(t, http.StatusNotFound)

	act("Delete the subscription", "", "", http.StatusOK, "Deleted the subscription search.index", "No subscriptions")
	s.get(t, path).want(t, http.StatusNotFound, "search.index")
}

// An operator lets parked messages be delivered again, or drops them.
func TestParkedMessages(t *testing.T) {
	t.Parallel()
	var accepts atomic.Bool
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !accepts.Load() {
			w.WriteHeader(http.StatusUnprocessableEntity)
		}
	}))
	t.Cleanup(receiver.Close)
	s := newSystem(t, "WATERSHIP_SUBSCRIPTIONS_PRIVATE_NETWORKS=127.0.0.0/8")
	attempts := 1
	request := subscriptions.Request{Name: "hooks", From: "start", URL: receiver.URL, Attempts: &attempts}
	if _, err := (subscriptions.Service{System: s.System}).Subscribe(t.Context(), request, subscriptions.Caller{Name: "ann"}); err != nil {
		t.Fatal(err)
	}
	const path = "/subscriptions/hooks"
	act := func(button, text string) {
		t.Helper()
		action, form := s.get(t, path).form(t, button)
		s.post(t, action, form).want(t, http.StatusOK, text)
	}
	s.publish(t, "order-<b>1", "{}", nil)
	page := s.until(t, path, "Parked messages 1 message")
	page.want(t, http.StatusOK, "order-<b>1", "422")
	if strings.Contains(page.text, "order-<b>") {
		t.Error("the id of a message is markup")
	}
	act("Drop all parked messages", "Dropped 1 parked message from the list.")
	s.get(t, path).without(t, "Parked messages")
	s.publish(t, "order-2", "{}", nil)
	s.until(t, path, "Parked messages 1 message")
	accepts.Store(true)
	act("Deliver all parked messages again", "1 parked message will be delivered again.")
	until(t, func() bool { return !strings.Contains(s.get(t, path).words(t), "Parked messages") })
}
