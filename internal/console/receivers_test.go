package console_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/schemas"
)

// The pages of receivers show which are broken, and lead to the replay of what they have missed.
func TestReceiverPages(t *testing.T) {
	s := newSystem(t)
	s.get(t, whole("/receivers")).want(t, http.StatusOK, "No requests to receivers in this period")
	at := time.Now().Add(-time.Minute)
	request := func(action schemas.Action, receiver, text string) schemas.Event {
		at = at.Add(time.Second)
		return schemas.Event{Action: action, State: schemas.State{
			Time: at, Queue: "hooks", Receiver: receiver, Message: "i-" + receiver + string(action), Duration: time.Millisecond, Failure: schemas.Failure{Message: text},
		}, Envelope: schemas.Envelope{Properties: schemas.Properties{MessageID: receiver + string(action)}}}
	}
	well := request(schemas.Handled, "well.example", "")
	well.Answer = "200 OK thanks"
	systemtest.Record(t, s.System, well, request(schemas.Handled, "a/b&c.example", ""), request(schemas.Poisoned, "a/b&c.example", "410 <Gone>"), request(schemas.RetryScheduled, "a/b&c.example", "503"))
	s.get(t, whole("/receivers")).want(t, http.StatusOK, "2 receivers", "broken", "33.3%", "100%", "well.example")
	s.get(t, whole("/receiver?queue=hooks&receiver=a%2Fb%26c.example")).want(t, http.StatusOK, "a/b&c.example", "broken", "1 message waiting, 1 message missed", "Send what it missed", "503")
	page := s.get(t, whole("/receiver?queue=hooks&receiver=a%2Fb%26c.example"))
	if !strings.Contains(page.text, `href="/replays/new?q=action`) || !strings.Contains(page.text, "target=failed_queue") {
		t.Errorf("no link to a replay in %s", page.text)
	}
	s.get(t, whole("/receiver?queue=hooks&receiver=well.example")).want(t, http.StatusOK, "The latest request succeeded", "200 OK thanks")
	s.get(t, whole("/receiver?queue=hooks&receiver=nobody")).want(t, http.StatusBadRequest, "no request to a receiver")
}
