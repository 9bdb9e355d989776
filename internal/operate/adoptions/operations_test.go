package adoptions

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/rabbitmq"
)

// site is a Runner of a System whose topology is declared, with an error queue of Spring.
type site struct {
	*Runner
	broker  rabbittest.Broker
	channel *amqp.Channel
}

func newSite(t *testing.T, failures int) site {
	t.Helper()
	t.Parallel() // most of it is waiting
	sys, broker := systemtest.Embedded(t)
	must(t, pipeline.Declare(t.Context(), pipeline.Config{Connection: rabbitmq.Connection{URL: broker.URL}, Topology: sys.Topology()}))
	s := site{NewRunner(sys), broker, broker.Channel(t)}
	_, err := s.channel.QueueDeclare("errors", true, false, false, false, nil)
	must(t, err)
	for range failures {
		must(t, s.channel.Publish("", "errors", false, false, amqp.Publishing{
			MessageId: "m", Headers: amqp.Table{"x-exception-message": "boom", "x-original-exchange": "shop", "x-original-routingKey": "paid"},
		}))
	}
	rabbittest.Eventually(t, "the failures wait", func() bool { return broker.Len(t, "errors") == failures })
	return s
}

// run runs adoptions until the test ends.
func (s site) run(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx, slog.New(slog.DiscardHandler)) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// as returns a context of a caller that may use some queues; none: all.
func as(t *testing.T, queues ...string) context.Context {
	t.Helper()
	return access.NewContext(t.Context(), access.Identity{Name: "ann", Role: access.Operator, Queues: queues})
}

func wantStatus(t *testing.T, err error, status int, detail string) {
	t.Helper()
	var p *problem.Problem
	if !errors.As(err, &p) || p.GetStatus() != status || !strings.Contains(p.Detail, detail) {
		t.Errorf("%v, want the status %d and %q", err, status, detail)
	}
}

func request(limit int) AdoptionRequest {
	return AdoptionRequest{Queue: "errors", Format: "spring", FailedQueue: "orders", Limit: limit}
}

// keep stores an adoption as a run has left it.
func (s site) keep(t *testing.T, id string, state State, r AdoptionRequest) {
	t.Helper()
	source, err := s.service.System.Source(t.Context())
	must(t, err)
	now := time.Now().UTC()
	_, err = s.records.create(t.Context(), Adoption{ID: id, Source: source, State: state, Request: Request(r), Created: now, Updated: now})
	must(t, err)
}

func TestAPreviewTakesNothing(t *testing.T) {
	s := newSite(t, 3)
	out, err := s.previewAdoption(as(t), &PreviewInput{request(0)})
	if err != nil || out.Body.Failures != 3 || len(out.Body.Groups) != 1 || out.Body.Groups[0].Queue != "orders" {
		t.Errorf("%+v, %v", out, err)
	}
	rabbittest.Eventually(t, "the failures are back", func() bool { return s.broker.Len(t, "errors") == 3 })
}

// A command runs an adoption in the call that starts it, without a record.
func TestAnAdoptionInACall(t *testing.T) {
	s := newSite(t, 3)
	done, err := InCalls(s.service.System).startAdoption(as(t), &StartInput{Body: request(2)})
	if err != nil || done.Body.State != Done || done.Body.Failures != 2 || done.Body.Operator != "ann" {
		t.Errorf("%+v, %v", done, err)
	}
	if list, err := s.listAdoptions(as(t), nil); err != nil || len(list.Body.Adoptions) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestAnAdoptionTakesWhatIsThere(t *testing.T) {
	s := newSite(t, 3)
	s.run(t)
	begun, err := s.startAdoption(as(t), &StartInput{Body: request(0)})
	if err != nil || begun.Body.State != Running || begun.Body.Total != 3 || begun.Body.Operator != "ann" {
		t.Fatalf("%+v, %v", begun, err)
	}
	var got *AdoptionOutput
	rabbittest.Eventually(t, "the adoption ends", func() bool {
		got, err = s.getAdoption(as(t), &IDInput{begun.Body.ID})
		return err != nil || got.Body.State != Running
	})
	if err != nil || got.Body.State != Done || got.Body.Result.Failures != 3 || got.Body.Ended == nil {
		t.Errorf("%+v, %v", got, err)
	}
	if left, reports := s.broker.Len(t, "errors"), s.broker.Len(t, s.service.System.Topology().Report()); left != 0 || reports != 3 {
		t.Errorf("%d are left, %d were reported", left, reports)
	}
}

func TestAnAdoptionHasALimit(t *testing.T) {
	s := newSite(t, 3)
	s.run(t)
	begun, err := s.startAdoption(as(t), &StartInput{Body: request(2)})
	if err != nil || begun.Body.Total != 2 {
		t.Fatalf("%+v, %v", begun, err)
	}
	rabbittest.Eventually(t, "the adoption ends", func() bool {
		got, err := s.getAdoption(as(t), &IDInput{begun.Body.ID})
		return err != nil || got.Body.State == Done
	})
	if left := s.broker.Len(t, "errors"); left != 1 {
		t.Errorf("%d are left", left)
	}
}

// A preview says how many messages are ready, and an adoption that expects another number takes none.
func TestAnAdoptionOfAnotherNumber(t *testing.T) {
	s := newSite(t, 3)
	s.run(t)
	out, err := s.previewAdoption(as(t), &PreviewInput{request(2)})
	if err != nil || out.Body.Matched != 2 || out.Body.Failures != 2 {
		t.Errorf("%+v, %v", out, err)
	}
	other := request(0)
	other.Expect = new(int)
	_, err = s.startAdoption(as(t), &StartInput{Body: other})
	wantStatus(t, err, http.StatusConflict, "3 messages match, 0 expected: nothing was changed")
	three, all := 3, Request(request(0))
	all.Expect = &three
	if adopter, ready, err := s.service.ready(as(t), all); ready != 3 || adopter.Limit != 3 || err != nil {
		t.Errorf("%d are ready, at most %d are taken in, %v", ready, adopter.Limit, err)
	}
	same := request(out.Body.Matched)
	same.Expect, same.Reason = &out.Body.Matched, "moved"
	begun, err := s.startAdoption(as(t), &StartInput{Body: same})
	if err != nil || begun.Body.Total != 2 || begun.Body.Reason != "moved" {
		t.Errorf("%+v, %v", begun, err)
	}
	rabbittest.Eventually(t, "the adoption ends", func() bool { return s.broker.Len(t, "errors") == 1 })
}

// Of an empty queue nothing is expected, and nothing that arrives later is taken in.
func TestAnAdoptionThatExpectsNothing(t *testing.T) {
	s := newSite(t, 0)
	none := request(0)
	none.Expect = new(int)
	_, err := s.startAdoption(as(t), &StartInput{Body: none})
	wantStatus(t, err, http.StatusConflict, `queue "errors" has no message to take in`)
}

func TestCallersThatMayNotAdopt(t *testing.T) {
	s := newSite(t, 0)
	unnamed := request(0)
	unnamed.FailedQueue = ""
	for name, test := range map[string]struct {
		queues  []string
		request AdoptionRequest
		want    string
	}{
		"the error queue":      {[]string{"orders"}, request(0), "may not use the queue errors"},
		"the failed queue":     {[]string{"errors"}, request(0), "may not use the queue orders"},
		"any queue that fails": {[]string{"errors", "orders"}, unnamed, "may not use all queues"},
	} {
		_, err := s.startAdoption(as(t, test.queues...), &StartInput{Body: test.request})
		wantStatus(t, err, http.StatusForbidden, test.want)
		_, err = s.previewAdoption(as(t, test.queues...), &PreviewInput{test.request})
		wantStatus(t, err, http.StatusForbidden, test.want)
		if list, err := s.records.list(t.Context()); err != nil || len(list) != 0 {
			t.Errorf("%s: %+v, %v", name, list, err)
		}
	}
	if _, err := s.previewAdoption(as(t, "errors", "orders"), &PreviewInput{request(0)}); err != nil {
		t.Error(err)
	}
}

func TestQueuesThatCannotBeAdopted(t *testing.T) {
	s := newSite(t, 0)
	missing := request(0)
	missing.Queue = "nowhere"
	_, err := s.startAdoption(as(t), &StartInput{Body: missing})
	wantStatus(t, err, http.StatusConflict, "nowhere")
	_, err = s.previewAdoption(as(t), &PreviewInput{missing})
	wantStatus(t, err, http.StatusConflict, "nowhere")
}

func TestAnUnknownFormatIsAMistake(t *testing.T) {
	s := newSite(t, 0)
	unknown := request(0)
	unknown.Format = "telegram"
	_, err := s.previewAdoption(as(t), &PreviewInput{unknown})
	var input system.InputError
	if !errors.As(err, &input) || !strings.Contains(err.Error(), "telegram") {
		t.Errorf("%v", err)
	}
}

func TestCallersSeeTheAdoptionsOfTheirQueues(t *testing.T) {
	s := newSite(t, 0)
	s.keep(t, "orders", Done, request(0))
	other := request(0)
	other.FailedQueue = "mail"
	s.keep(t, "mail", Done, other)
	ids := func(ctx context.Context) (list []string) {
		out, err := s.listAdoptions(ctx, nil)
		must(t, err)
		for _, a := range out.Body.Adoptions {
			list = append(list, a.ID)
		}
		slices.Sort(list)
		return list
	}
	if got := ids(as(t)); !slices.Equal(got, []string{"mail", "orders"}) {
		t.Errorf("%q", got)
	}
	if got := ids(as(t, "errors", "mail")); !slices.Equal(got, []string{"mail"}) {
		t.Errorf("%q", got)
	}
	_, err := s.getAdoption(as(t, "errors", "mail"), &IDInput{"orders"})
	wantStatus(t, err, http.StatusNotFound, "there is no adoption orders")
	_, err = s.cancelAdoption(as(t, "errors", "mail"), &CancelInput{IDInput: IDInput{"orders"}})
	wantStatus(t, err, http.StatusNotFound, "there is no adoption orders")
}

func TestCancel(t *testing.T) {
	s := newSite(t, 0)
	for id, test := range map[string]struct {
		state State
		done  bool
	}{"running": {Running, true}, "cancelled": {Cancelled, true}, "done": {Done, false}, "failed": {Failed, false}} {
		s.keep(t, id, test.state, request(0))
		out, err := s.cancelAdoption(as(t), &CancelInput{IDInput: IDInput{id}})
		if !test.done {
			wantStatus(t, err, http.StatusConflict, "adoption "+id+" is "+id+": there is nothing left to cancel")
		} else if err != nil || id == "running" && out.Body.CancelledBy != "ann" {
			t.Errorf("%s: %+v, %v", id, out, err)
		}
	}
}

// The first who cancels an adoption is who cancelled it.
func TestCancelTwice(t *testing.T) {
	s := newSite(t, 0)
	s.keep(t, "a", Running, request(0))
	for _, name := range []string{"ann", "bob"} {
		ctx := access.NewContext(t.Context(), access.Identity{Name: name, Role: access.Operator})
		if out, err := s.cancelAdoption(ctx, &CancelInput{IDInput: IDInput{"a"}}); err != nil || out.Body.CancelledBy != "ann" {
			t.Errorf("%+v, %v", out, err)
		}
	}
}

func TestARunThatEndedWithItsProcessIsInterrupted(t *testing.T) {
	now := time.Now()
	for name, test := range map[string]struct {
		state   State
		updated time.Time
		want    State
	}{
		"runs":      {Running, now, Running},
		"was ended": {Running, now.Add(-time.Hour), Interrupted},
		"is done":   {Done, now.Add(-time.Hour), Done},
	} {
		if got := (Adoption{State: test.state, Updated: test.updated}).asOf(now); got.State != test.want {
			t.Errorf("%s: %s", name, got.State)
		}
	}
}

func TestARunnerThatHasStoppedStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if err := NewRunner(nil).start(t.Context(), Adopter{}, Adoption{}, ""); err == nil {
			t.Error("it was started")
		}
	})
}
