package httpapi_test

import (
	"net/http"
	"net/url"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// An admin gives a queue retries after a preview, and takes them away. Limits on queues hold.
func TestRoutePolicies(t *testing.T) {
	t.Parallel() // most of it is waiting
	s := newSystem(t, rabbittest.NewestServer(t))
	queue, taken := s.broker.Queue(t, nil), s.broker.Queue(t, amqp.Table{"x-dead-letter-exchange": "elsewhere"})
	add, remove := "/routes/"+url.PathEscape(queue)+"/add", "/routes/"+url.PathEscape(queue)+"/remove"

	s.as(t, access.Token{Name: "olga", Role: access.Operator}).do(t, http.MethodPost, add, `{"dry_run":true}`).wantProblem(t, http.StatusForbidden, "this needs admin")
	limited := s.as(t, access.Token{Name: "lim", Role: access.Admin, Queues: []string{queue}})
	limited.do(t, http.MethodPost, "/routes/"+url.PathEscape(taken)+"/add", `{"dry_run":true}`).wantProblem(t, http.StatusForbidden, "may not use the queue "+taken)
	limited.do(t, http.MethodPost, remove, `{}`).wantProblem(t, http.StatusConflict, "there is no policy")

	limited.do(t, http.MethodPost, "/reload", "{}").wantProblem(t, http.StatusForbidden, "lim may not use all queues, and the configuration has the routes of all")
	preview := limited.post(t, add, `{"dry_run":true}`)
	digest, _ := preview["digest"].(string)
	if member(preview, "save", "definition", "dead-letter-exchange") != "watership.retry" || digest == "" || preview["done"] != false || preview["matched"] != 1.0 {
		t.Errorf("the preview is %v", preview)
	}
	s.do(t, http.MethodPost, add, `{"digest":"other"}`).wantProblem(t, http.StatusConflict, "nothing was changed")
	if again := limited.post(t, add, `{"dry_run":true}`); again["digest"] != digest {
		t.Errorf("a preview or a refusal has changed something: %v, then %v", preview, again)
	}
	s.do(t, http.MethodPost, add, `{"expect":2}`).wantProblem(t, http.StatusConflict, "1 queue matches, 2 expected: nothing was changed")
	shown := `{"expect":1,"digest":"` + digest + `"}`
	done := limited.post(t, add, shown, "Idempotency-Key", "once")
	if repeated := limited.post(t, add, shown, "Idempotency-Key", "once"); done["done"] != true || repeated["done"] != true {
		t.Errorf("it answers %v, and %v to the same request", done, repeated)
	}
	if again := limited.post(t, add, `{}`); again["save"] != nil || again["done"] != false {
		t.Errorf("again: %v", again)
	}
	if removed := limited.post(t, remove, `{}`); removed["done"] != true || removed["delete"] == nil {
		t.Errorf("the removal answers %v", removed)
	}
	refused := s.do(t, http.MethodPost, "/routes/"+url.PathEscape(taken)+"/add", `{}`).wantProblem(t, http.StatusConflict, `the dead-letter exchange "elsewhere"`)
	if refused["remedy"] == nil {
		t.Errorf("no remedy: %v", refused)
	}
	s.do(t, http.MethodPost, "/routes/nobody/add", `{}`).wantProblem(t, http.StatusConflict, "does not exist")
}
