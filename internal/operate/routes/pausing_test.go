package routes

import (
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/internal/topology/pause"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

func TestPause(t *testing.T) {
	s := newSite(t, ordersAndInvoices)
	must(t, s.Pause(t.Context(), "orders", because("the service is closed")))
	got := s.all(t)["orders"]
	if got.State != "paused" || !got.ByHand || got.WithAll {
		t.Errorf("%+v", got)
	}
}

// The event of a pause has the reason and the operator, for the record.
func TestAPauseIsRecorded(t *testing.T) {
	s := newSite(t, ordersAndInvoices)
	must(t, s.Pause(t.Context(), "orders", because("the service is closed")))
	d := s.broker.Take(t, s.System.Topology().Log(), 1)[0]
	_, state, err := wire.Unwrap(schemas.FromDelivery(d))
	must(t, err)
	if d.RoutingKey != string(schemas.Paused) || state.Queue != "orders" || state.Failure.Type != pause.ByOperator || state.Failure.Message != "the service is closed (ann)" {
		t.Errorf("%s %+v", d.RoutingKey, state)
	}
}

func TestThePausedRouteHasTheReasonOfItsEvent(t *testing.T) {
	at := time.Now().Add(-time.Hour).Truncate(time.Millisecond).UTC()
	s := newSite(t, ordersAndInvoices)
	must(t, s.Pause(t.Context(), "orders", because("x")))
	for n, text := range []string{"first (ann)", "second (bob)"} {
		e := breaker(schemas.Paused, "orders", at.Add(time.Duration(n)*time.Minute))
		e.Failure = schemas.Failure{Type: pause.ByOperator, Message: text}
		systemtest.Record(t, s.System, e)
	}
	got := s.all(t)["orders"]
	if got.Error != "second (bob)" || got.Since == nil || !got.Since.Equal(at.Add(time.Minute)) {
		t.Errorf("%+v", got)
	}
}

func TestResume(t *testing.T) {
	s := newSite(t, ordersAndInvoices)
	must(t, s.Pause(t.Context(), "orders", because("x")))
	got, err := s.Resume(t.Context(), "orders", because(""))
	if err != nil || !got.Changed || got.WithAll {
		t.Errorf("%+v, %v", got, err)
	}
	if state := s.all(t)["orders"]; state.State != "no consumer" {
		t.Errorf("%+v", state)
	}
}

func TestResumingARouteThatRunsChangesNothing(t *testing.T) {
	s := newSite(t, ordersAndInvoices)
	if got, err := s.Resume(t.Context(), "orders", because("")); err != nil || got.Changed {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := s.ResumeAll(t.Context(), because("")); err != nil || got.Changed {
		t.Errorf("%+v, %v", got, err)
	}
	if n := s.broker.Len(t, s.System.Topology().Log()); n != 0 {
		t.Errorf("%d events of a resume that changes nothing", n)
	}
}

func TestPausingAll(t *testing.T) {
	s := newSite(t, ordersAndInvoices)
	must(t, s.PauseAll(t.Context(), because("upgrade")))
	all := s.all(t)
	if got := all["orders"]; got.State != "paused" || !got.WithAll || got.ByHand {
		t.Errorf("%+v", got)
	}
	if got := all["invoices"]; got.State != "no queue" || got.WithAll {
		t.Errorf("Watership cannot pause what another program consumes: %+v", got)
	}
	got, err := s.ResumeAll(t.Context(), because(""))
	if err != nil || !got.Changed {
		t.Errorf("%+v, %v", got, err)
	}
	if state := s.all(t)["orders"]; state.State == "paused" {
		t.Errorf("%+v", state)
	}
}

func TestARouteThatIsPausedItselfStaysSo(t *testing.T) {
	s := newSite(t, ordersAndInvoices)
	must(t, s.Pause(t.Context(), "orders", because("x")))
	must(t, s.PauseAll(t.Context(), because("upgrade")))
	_, err := s.ResumeAll(t.Context(), because(""))
	must(t, err)
	if got := s.all(t)["orders"]; got.State != "paused" || !got.ByHand || got.WithAll {
		t.Errorf("%+v", got)
	}
}

func TestARouteMayStayPausedWithAll(t *testing.T) {
	s := newSite(t, ordersAndInvoices)
	must(t, s.PauseAll(t.Context(), because("upgrade")))
	must(t, s.Pause(t.Context(), "orders", because("x")))
	got, err := s.Resume(t.Context(), "orders", because(""))
	if err != nil || !got.Changed || !got.WithAll {
		t.Errorf("%+v, %v", got, err)
	}
	if state := s.all(t)["orders"]; state.State != "paused" || state.ByHand {
		t.Errorf("%+v", state)
	}
}

func TestWhatCannotBePausedOrResumed(t *testing.T) {
	s := newSite(t, ordersAndInvoices)
	s.declare(t, "invoices", nil)
	s.declare(t, "held", nil)
	must(t, s.channel.QueueBind("held", "held", s.System.Topology().Direct(), false, nil))
	systemtest.Record(t, s.System, breaker(schemas.Paused, "held", time.Now()))
	pausing := func(queue string) error { return s.Pause(t.Context(), queue, because("x")) }
	resuming := func(queue string) error { _, err := s.Resume(t.Context(), queue, because("")); return err }
	for name, test := range map[string]struct {
		do    func(string) error
		queue string
		want  string
	}{
		"pause an unknown queue":         {pausing, "nowhere", "no route has the queue nowhere"},
		"pause the queue of a program":   {pausing, "invoices", "another program consumes queue invoices: Watership cannot pause it"},
		"resume an unknown queue":        {resuming, "nowhere", "no route has the queue nowhere"},
		"resume what the breaker paused": {resuming, "held", "the circuit breaker has paused the route of queue held: it resumes by itself"},
	} {
		if err := test.do(test.queue); !isMistake(err) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	must(t, s.PauseAll(t.Context(), because("x")))
	const want = "all routes are paused, the one of queue orders among them: resume all"
	if err := resuming("orders"); !isMistake(err) || err.Error() != want {
		t.Errorf("%v, want %q", err, want)
	}
}

// Before setup there is no exchange to ask, so that no route is paused by hand.
func TestStatesBeforeSetup(t *testing.T) {
	sys, _ := systemtest.Embedded(t, ordersAndInvoices)
	states, err := Service{System: sys}.States(t.Context(), false)
	if err != nil || len(states) != 2 || states[0].State != "no queue" {
		t.Errorf("%+v, %v", states, err)
	}
}
