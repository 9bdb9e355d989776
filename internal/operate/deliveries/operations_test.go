package deliveries

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/operate/routes"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/internal/topology/pause"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/rabbitmq"
	"github.com/watershipmq/watership/schemas"
)

var now = time.Now()

// attempt is the event of an attempt for a receiver, so many seconds ago.
func attempt(action schemas.Action, queue, receiver, message string, ago int) schemas.Event {
	e := schemas.Event{Action: action, State: schemas.State{
		Queue: queue, Receiver: receiver, Message: message, Time: now.Add(-time.Duration(ago) * time.Second), Duration: time.Duration(ago) * time.Millisecond,
	}, Envelope: schemas.Envelope{Properties: schemas.Properties{MessageID: message}}}
	if action != schemas.Handled {
		e.Failure = schemas.Failure{Type: "http", Message: "503 from " + receiver}
	}
	return e
}

// site is a system with receivers of two routes.
func site(t *testing.T) operations {
	t.Helper()
	sys, _ := systemtest.Embedded(t, `WATERSHIP_ROUTES=[{queue: hooks, fairness: {key: "{headers.to}"}, handler: {http: {url: "http://127.0.0.1:1/"}}}, {queue: plain, handler: {http: {url: "http://127.0.0.1:1/"}}}]`)
	answered := attempt(schemas.Handled, "hooks", "well", "w1", 6)
	answered.Answer = "200 OK thanks"
	systemtest.Record(t, sys,
		attempt(schemas.Handled, "hooks", "down", "d0", 90),
		attempt(schemas.RetryScheduled, "hooks", "down", "d1", 60), attempt(schemas.RetryScheduled, "hooks", "down", "d2", 55), attempt(schemas.Poisoned, "hooks", "down", "d2", 50),
		attempt(schemas.RetryScheduled, "hooks", "mended", "m1", 40), attempt(schemas.Handled, "hooks", "mended", "m1", 30),
		attempt(schemas.Handled, "hooks", "well", "w0", 8), answered, attempt(schemas.Handled, "hooks", "well", "w2", 7),
		attempt(schemas.Handled, "other", "well", "o1", 5),
	)
	return operations{sys}
}

// as returns a context of a caller that may use some queues; none: all.
func as(t *testing.T, queues ...string) context.Context {
	t.Helper()
	return access.NewContext(t.Context(), access.Identity{Name: "ann", Role: access.Operator, Queues: queues, Bodies: true})
}

func TestList(t *testing.T) {
	o := site(t)
	for _, test := range []struct {
		ctx   context.Context
		query string
		limit int
		want  []string
	}{
		{as(t), "", 50, []string{"hooks down", "hooks mended", "hooks well", "other well"}},
		{as(t), "", 2, []string{"hooks down", "hooks mended"}},
		{as(t), "receiver: w*", 50, []string{"hooks well", "other well"}},
		{as(t, "other"), "", 50, []string{"other well"}},
		{as(t), "receiver: nobody", 50, nil},
	} {
		in := &ListInput{Limit: test.limit}
		in.Query = test.query
		out, err := o.list(test.ctx, in)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range out.Body.Receivers {
			got = append(got, r.Queue+" "+r.Name)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%q: %q, want %q", test.query, got, test.want)
		}
	}
}

func TestGet(t *testing.T) {
	o := site(t)
	get := func(name string) ReceiverState {
		t.Helper()
		out, err := o.get(as(t, "hooks"), &GetInput{Queue: "hooks", Name: name, Since: "24h"})
		if err != nil {
			t.Fatal(err)
		}
		return out.Body
	}
	ago := func(at *time.Time) int {
		if at == nil {
			return -1
		}
		return int(now.Sub(*at).Round(time.Second).Seconds())
	}
	down := get("down")
	if down.Requests != 4 || down.Succeeded != 1 || ago(down.BrokenSince) != 60 || ago(down.LastSuccess) != 90 || ago(down.LastAt) != 50 || down.LastAnswer != "503 from down" || down.Waiting != 1 || down.Missed != 1 {
		t.Errorf("%+v", down)
	}
	if p95 := down.P95; p95 < 0.088 || p95 > 0.092 {
		t.Errorf("p95 %f", p95)
	}
	if r := get("mended"); r.Requests != 2 || r.Succeeded != 1 || r.BrokenSince != nil || r.Waiting != 0 || r.Missed != 0 || ago(r.LastAt) != 30 {
		t.Errorf("%+v", r)
	}
	if r := get("well"); r.Requests != 3 || r.Succeeded != 3 || r.LastAnswer != "200 OK thanks" || ago(r.LastAt) != 6 {
		t.Errorf("%+v", r)
	}
	blind := access.NewContext(t.Context(), access.Identity{Name: "bob", Role: access.Viewer})
	if out, err := o.get(blind, &GetInput{Queue: "hooks", Name: "well", Since: "24h"}); err != nil || out.Body.LastAnswer != "200" {
		t.Errorf("without the permission to read bodies: %+v, %v", out, err)
	}
	var mistake system.InputError
	if _, err := o.get(as(t), &GetInput{Queue: "hooks", Name: "nobody", Since: "24h"}); !errors.As(err, &mistake) {
		t.Errorf("an unknown receiver: %v", err)
	}
	var forbidden *problem.Problem
	if _, err := o.get(as(t, "other"), &GetInput{Queue: "hooks", Name: "well", Since: "24h"}); !errors.As(err, &forbidden) || forbidden.GetStatus() != http.StatusForbidden {
		t.Errorf("a receiver of a queue of others: %v", err)
	}
}

// A hold is in RabbitMQ and in the record, and a release ends it.
func TestHoldAndRelease(t *testing.T) {
	o := site(t)
	if err := pipeline.Declare(t.Context(), pipeline.Config{Connection: rabbitmq.Connection{URL: o.system.ServerURL()}, Topology: o.system.Topology()}); err != nil {
		t.Fatal(err)
	}
	systemtest.Index(t, o.system)
	change := func(do func(context.Context, *HoldInput) (*HoldOutput, error), queue, reason string, dryRun bool) (HoldChange, error) {
		in := &HoldInput{Queue: queue}
		in.Body.Receiver, in.Body.Reason, in.Body.DryRun = "well", reason, dryRun
		out, err := do(as(t, "hooks", "plain"), in)
		if err != nil {
			return HoldChange{}, err
		}
		return out.Body, nil
	}
	want := func(when string, got HoldChange, err error, matched int, held bool) {
		t.Helper()
		if err != nil || got.Matched != matched || got.Held != held || got.Unknown {
			t.Errorf("%s: %+v, %v", when, got, err)
		}
	}
	if _, err := change(o.hold, "hooks", "", false); err == nil {
		t.Error("a hold without a reason")
	}
	if _, err := change(o.hold, "plain", "they move", false); err == nil {
		t.Error("a hold of a route without receivers")
	}
	if _, err := change(o.hold, "other", "they move", false); err == nil {
		t.Error("a hold of a queue that the caller may not use")
	}
	mistyped := &HoldInput{Queue: "hooks"}
	mistyped.Body.Receiver, mistyped.Body.Reason, mistyped.Body.DryRun = "wel", "they move", true
	if out, err := o.hold(as(t, "hooks"), mistyped); err != nil || !out.Body.Unknown || out.Body.Matched != 1 {
		t.Errorf("a receiver that the record does not know: %+v, %v", out, err)
	}
	got, err := change(o.hold, "hooks", "they move", true)
	want("dry run", got, err, 1, false)
	got, err = change(o.hold, "hooks", "they move", false)
	want("hold", got, err, 1, true)
	recorded := func(held bool) {
		t.Helper()
		for deadline := time.Now().Add(rabbittest.Timeout); ; time.Sleep(5 * time.Millisecond) {
			out, err := o.get(as(t), &GetInput{Queue: "hooks", Name: "well", Since: "24h"})
			if err != nil {
				t.Fatal(err)
			}
			if h := out.Body.Held; !held && h == nil || held && h != nil && h.Since != nil && h.Why == "they move (ann)" {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("it is not recorded that the receiver is held: %t", held)
			}
		}
	}
	recorded(true)
	got, err = change(o.hold, "hooks", "they move", false)
	want("hold again", got, err, 0, true)
	in := &ListInput{Limit: 50}
	in.Since = "1s"
	if out, err := o.list(as(t), in); err != nil || len(out.Body.Receivers) != 1 || out.Body.Receivers[0].Name != "well" || out.Body.Receivers[0].Held == nil {
		t.Errorf("a held receiver without requests in the period: %+v, %v", out, err)
	}
	got, err = change(o.release, "hooks", "", false)
	want("release", got, err, 1, false)
	recorded(false)
	var events []schemas.Event
	rabbittest.Eventually(t, "both changes are recorded", func() bool {
		events = systemtest.Events(t, o.system, "action: (paused or resumed)")
		return len(events) == 2
	})
	if events[0].Receiver != "well" || events[0].Failure.Type != pause.ByOperator {
		t.Errorf("%+v", events)
	}
	control, err := routes.Service{System: o.system}.Control(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	control.Publisher = lost{}
	if err := control.Hold(t.Context(), "hooks", "well", "they move"); err == nil {
		t.Fatal("the record has the hold")
	}
	if out, err := o.get(as(t), &GetInput{Queue: "hooks", Name: "well", Since: "24h"}); err != nil || out.Body.Held == nil || out.Body.Held.Since != nil {
		t.Errorf("a hold that is not recorded: %+v, %v", out, err)
	}
	got, err = change(o.hold, "hooks", "they move", false)
	want("hold that was not recorded", got, err, 0, true)
	recorded(true)
}

// Neither a hold nor one that changes nothing needs the store.
func TestHoldWithoutTheStore(t *testing.T) {
	sys, _ := systemtest.Embedded(t, "WATERSHIP_STORE_URL=sqlite:"+filepath.Join(t.TempDir(), "missing", "store.db"))
	o := operations{sys}
	if err := pipeline.Declare(t.Context(), pipeline.Config{Connection: rabbitmq.Connection{URL: sys.ServerURL()}, Topology: sys.Topology()}); err != nil {
		t.Fatal(err)
	}
	in := &HoldInput{Queue: "hooks"}
	in.Body.Receiver, in.Body.Reason = "well", "they move"
	for _, matched := range []int{1, 0} {
		out, err := o.hold(as(t), in)
		if err != nil || out.Body.Matched != matched || !out.Body.Held {
			t.Errorf("%+v, %v", out, err)
		}
	}
}

// lost publishes nothing.
type lost struct{}

func (lost) Publish(context.Context, rabbit.Message) error {
	return errors.New("the connection is lost")
}
