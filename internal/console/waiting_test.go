package console_test

import (
	"net/http"
	"strings"
	"testing"
)

// An operator sees which messages wait, and decides about a group after a preview.
func TestWaiting(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.get(t, "/waiting").want(t, http.StatusOK, "No message waits")
	s.broken.Store(true)
	for _, id := range []string{"patient-1", "patient-2"} {
		s.publish(t, id, "{}", nil)
	}
	s.await(t, 2, "action: retry_scheduled")
	page := s.get(t, "/waiting?q=queue%3A+orders")
	page.want(t, http.StatusOK, "2 messages", "orders", "no table for order #", "patient-", "Retry, postpone or cancel all…")
	s.get(t, whole("/")).want(t, http.StatusOK, "2 waiting, the oldest failed")
	preview := s.get(t, page.link(t, "/waiting/decide"))
	preview.want(t, http.StatusOK, "2 waiting messages", "Postpone by, in minutes")
	action, form := preview.form(t, "Decide")
	form.Set("action", "postpone")
	form.Set("reason", " ")
	s.post(t, action, form).want(t, http.StatusUnprocessableEntity, "a decision needs a reason")
	form.Set("reason", "maintenance")
	s.post(t, action, form).want(t, http.StatusUnprocessableEntity, "expected the minutes until the next attempt")
	form.Set("minutes", "NaN")
	s.post(t, action, form).want(t, http.StatusUnprocessableEntity, "expected the minutes until the next attempt")
	form.Set("minutes", "120")
	s.publish(t, "patient-3", "{}", nil) // which the operator has not seen
	s.await(t, 3, "action: retry_scheduled")
	s.post(t, action, form).want(t, http.StatusOK, "Postponed 2 messages.", "3 messages")
	if n := s.count(t, "action: rescheduled and event.reason: maintenance"); n != 2 {
		t.Errorf("%d events say why", n)
	}
	action, form = s.get(t, "/waiting/decide?q=queue%3A+orders").form(t, "Decide")
	form.Set("action", "cancel")
	form.Set("reason", "test orders")
	s.post(t, action, form).want(t, http.StatusOK, "Cancelled 3 messages.", "No message waits")
	if n := s.count(t, `action: discarded and error.message: "test orders (local)"`); n != 3 {
		t.Errorf("%d were cancelled", n)
	}
	mistake := s.get(t, "/waiting/decide?q=queue%3A+(")
	if mistake.want(t, http.StatusBadRequest); !strings.Contains(mistake.text, "<h1>Waiting messages</h1>") {
		t.Errorf("the page of a mistake has another heading:\n%s", mistake.text)
	}
	s.get(t, "/waiting/decide").want(t, http.StatusBadRequest, "no message is selected")
}
