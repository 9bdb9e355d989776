package adoptions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// set returns the operations on adoptions.
func (s site) set() *operation.Set {
	set := operation.NewLocal()
	Implement(set, s.Runner)
	return set
}

// ended waits until an adoption has ended, and returns it.
func (s site) ended(t *testing.T, id string) (a Adoption) {
	t.Helper()
	rabbittest.Eventually(t, "the adoption ends", func() bool {
		out, err := s.getAdoption(as(t), &IDInput{id})
		must(t, err)
		a = out.Body
		return a.State != Running
	})
	return a
}

// follow has the runner take in each message of the error queue, until it is stopped.
func (s site) follow(t *testing.T, id string) {
	t.Helper()
	adopter, err := s.service.adopter(t.Context(), Request(request(0)))
	must(t, err)
	adopter.Follow = true
	source, err := s.service.System.Source(t.Context())
	must(t, err)
	now := time.Now().UTC()
	a := Adoption{ID: id, Source: source, Operator: "ann", State: Running, Request: Request(request(0)), Result: Result{Groups: []OriginGroup{}}, Created: now, Updated: now}
	version, err := s.records.create(t.Context(), a)
	must(t, err)
	must(t, s.start(t.Context(), adopter, a, version))
}

// blockRuns has a runner do other things in all its places.
func (s site) blockRuns(t *testing.T) {
	t.Helper()
	for range maxRuns {
		must(t, s.Runner.Runner.Start(t.Context(), func(ctx context.Context, _ *slog.Logger) { <-ctx.Done() }))
	}
}

func TestAViewerAdoptsNothing(t *testing.T) {
	s := newSite(t, 0)
	s.keep(t, "a", Running, request(0))
	viewer := access.NewContext(t.Context(), access.Identity{Name: "vic", Role: access.Viewer})
	_, previewed := PreviewAdoption.Call(viewer, s.set(), PreviewInput{request(0)})
	_, started := StartAdoption.Call(viewer, s.set(), StartInput{Body: request(0)})
	_, cancelled := CancelAdoption.Call(viewer, s.set(), CancelInput{IDInput: IDInput{"a"}})
	for what, err := range map[string]error{"preview": previewed, "start": started, "cancel": cancelled} {
		t.Run(what, func(t *testing.T) {
			var refused *access.Error
			if !errors.As(err, &refused) || refused.Problem != "vic has the role viewer, and this needs operator" {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestAViewerSeesAdoptions(t *testing.T) {
	s := newSite(t, 0)
	s.keep(t, "a", Done, request(0))
	viewer := access.NewContext(t.Context(), access.Identity{Name: "vic", Role: access.Viewer})
	if list, err := ListAdoptions.Call(viewer, s.set(), struct{}{}); err != nil || len(list.Body.Adoptions) != 1 {
		t.Errorf("%+v, %v", list.Body, err)
	}
	if a, err := GetAdoption.Call(viewer, s.set(), IDInput{"a"}); err != nil || a.Body.State != Done {
		t.Errorf("%+v, %v", a.Body, err)
	}
}

// Who cancels an adoption is in its record, also if it is another operator than who started it.
func TestARunThatIsCancelledSaysByWhom(t *testing.T) {
	s := newSite(t, 0)
	s.run(t)
	s.follow(t, "a")
	bob := access.NewContext(t.Context(), access.Identity{Name: "bob", Role: access.Operator})
	_, err := s.cancelAdoption(bob, &CancelInput{IDInput: IDInput{"a"}})
	must(t, err)
	if a := s.ended(t, "a"); a.State != Cancelled || a.ProblemCode != ByCaller || a.Problem != "by bob" || a.Operator != "ann" || a.Ended == nil {
		t.Errorf("%+v", a)
	}
}

func TestACancelledRunLeavesItsMessages(t *testing.T) {
	s := newSite(t, 0)
	s.run(t)
	s.follow(t, "a")
	_, err := s.cancelAdoption(as(t), &CancelInput{IDInput: IDInput{"a"}})
	must(t, err)
	s.ended(t, "a")
	s.broker.Publish(t, "errors", amqp.Publishing{Headers: amqp.Table{"x-exception-message": "boom"}})
	if left, reports := s.broker.Len(t, "errors"), s.broker.Len(t, s.service.System.Topology().Report()); left != 1 || reports != 0 {
		t.Errorf("%d are left, %d were reported", left, reports)
	}
}

// A server that ends says what became of its adoptions, so that nobody waits for them.
func TestARunIsInterruptedByTheEndOfItsServer(t *testing.T) {
	s := newSite(t, 0)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx, slog.New(slog.DiscardHandler)) })
	s.follow(t, "a")
	stop()
	running.Wait()
	if a := s.ended(t, "a"); a.State != Interrupted || a.ProblemCode != ServerStopped || a.Problem != "the server has stopped: what is left is still in the queue" {
		t.Errorf("%+v", a)
	}
}

func TestARunOfAnotherFormatFails(t *testing.T) {
	s := newSite(t, maxUnreadable)
	s.run(t)
	wrong := request(0)
	wrong.Format = "nservicebus"
	begun, err := s.startAdoption(as(t), &StartInput{Body: wrong})
	must(t, err)
	a := s.ended(t, begun.Body.ID)
	if want := fmt.Sprintf(`%d messages of queue "errors" cannot be read as those of format nservicebus, and stay there`, maxUnreadable); a.State != Failed ||
		a.ProblemCode != ByError || !strings.HasPrefix(a.Problem, want) || a.Unreadable != maxUnreadable {
		t.Errorf("%+v", a)
	}
}

func TestMessagesOfAnotherFormatAreCountedAndStay(t *testing.T) {
	s := newSite(t, 2)
	s.broker.Publish(t, "errors", amqp.Publishing{MessageId: "foreign"})
	rabbittest.Eventually(t, "three messages wait", func() bool { return s.broker.Len(t, "errors") == 3 })
	s.run(t)
	begun, err := s.startAdoption(as(t), &StartInput{Body: request(0)})
	must(t, err)
	if a := s.ended(t, begun.Body.ID); a.State != Done || a.Failures != 2 || a.Unreadable != 1 || a.Cause == "" {
		t.Errorf("%+v", a)
	}
	rabbittest.Eventually(t, "the other one is back", func() bool { return s.broker.Len(t, "errors") == 1 })
}

func TestTooManyAdoptions(t *testing.T) {
	s := newSite(t, 1)
	s.run(t)
	s.blockRuns(t)
	_, err := s.startAdoption(as(t), &StartInput{Body: request(0)})
	wantStatus(t, err, http.StatusServiceUnavailable, "too many adoptions are running: nothing was taken in")
	var p *problem.Problem
	if errors.As(err, &p) && (p.RetryAfter == 0 || p.Remedy != "Send the request again when one of them has ended.") {
		t.Errorf("%+v", p)
	}
	if left := s.broker.Len(t, "errors"); left != 1 {
		t.Errorf("%d are left", left)
	}
}

// The list shows what became of a request, also if its response was lost.
func TestAnAdoptionThatDidNotStartIsRecordedAsFailed(t *testing.T) {
	s := newSite(t, 1)
	s.run(t)
	s.blockRuns(t)
	_, err := s.startAdoption(as(t), &StartInput{Body: request(0)})
	wantStatus(t, err, http.StatusServiceUnavailable, "too many")
	list, err := s.listAdoptions(as(t), nil)
	must(t, err)
	if len(list.Body.Adoptions) != 1 {
		t.Fatalf("%+v", list.Body)
	}
	if a := list.Body.Adoptions[0]; a.State != Failed || a.ProblemCode != ByError || a.Problem != "too many adoptions are running: nothing was taken in" {
		t.Errorf("%+v", a)
	}
}

// Two operators start the same: each message is taken in once.
func TestTwoAdoptionsOfOneQueue(t *testing.T) {
	s := newSite(t, 20)
	s.run(t)
	var ids []string
	for range 2 {
		begun, err := s.startAdoption(as(t), &StartInput{Body: request(0)})
		must(t, err)
		ids = append(ids, begun.Body.ID)
	}
	taken := 0
	for _, id := range ids {
		taken += s.ended(t, id).Failures
	}
	if left, reports := s.broker.Len(t, "errors"), s.broker.Len(t, s.service.System.Topology().Report()); left != 0 || taken != 20 || reports != 20 {
		t.Errorf("%d are left, %d were taken in, %d reported", left, taken, reports)
	}
}

// The store may have a request to cancel it that the run has not seen.
func TestTheEndOfARunIsSavedAfterSomebodyElseHasSaved(t *testing.T) {
	s := newSite(t, 0)
	s.keep(t, "a", Running, request(0))
	a, version, err := s.records.read(t.Context(), "a")
	must(t, err)
	_, err = s.cancelAdoption(as(t), &CancelInput{IDInput: IDInput{"a"}})
	must(t, err)
	(&run{s.records, slog.New(slog.DiscardHandler), Adopter{}, a, version}).finish(t.Context(), outcome{result: Result{Failures: 3, Groups: []OriginGroup{}}})
	if got := s.ended(t, "a"); got.State != Done || got.Failures != 3 || got.CancelledBy != "ann" {
		t.Errorf("%+v", got)
	}
}

func TestAnEndThatIsNotSavedIsLogged(t *testing.T) {
	s := newSite(t, 0)
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, nil))
	(&run{s.records, logger, Adopter{}, Adoption{ID: "gone", Request: Request(request(0))}, "no version"}).finish(t.Context(), outcome{result: Result{Failures: 3}})
	for _, part := range []string{"the end of an adoption was not saved", "adoption=gone", "queue=errors", "failures=3"} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("%q is not in %s", part, log.String())
		}
	}
}

// follows follows an error queue until stop is called, and returns what was taken in.
func (s site) follows(t *testing.T, r AdoptionRequest) (stop func() Result) {
	t.Helper()
	ctx, cancel := context.WithCancel(as(t))
	var result Result
	var err error
	var following sync.WaitGroup
	following.Go(func() { result, err = s.service.Follow(ctx, Request(r)) })
	return func() Result {
		cancel()
		following.Wait()
		if !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
		return result
	}
}

func TestAQueueIsFollowedUntilTheCommandEnds(t *testing.T) {
	s := newSite(t, 2)
	stop := s.follows(t, request(0))
	reports := s.service.System.Topology().Report()
	rabbittest.Eventually(t, "the first are reported", func() bool { return s.broker.Len(t, reports) == 2 })
	s.broker.Publish(t, "errors", amqp.Publishing{Headers: amqp.Table{"x-exception-message": "boom", "x-original-exchange": "shop", "x-original-routingKey": "paid"}})
	rabbittest.Eventually(t, "a later one is reported", func() bool { return s.broker.Len(t, reports) == 3 })
	if got := stop(); got.Failures != 3 || len(got.Groups) != 1 || got.Groups[0].Queue != "orders" {
		t.Errorf("%+v", got)
	}
}

func TestAQueueThatTheCallerMayNotUseIsNotFollowed(t *testing.T) {
	_, err := newSite(t, 0).service.Follow(as(t, "orders"), Request(request(0)))
	wantStatus(t, err, http.StatusForbidden, "ann may not use the queue errors")
}

func TestAQueueWithAnotherNumberIsNotFollowed(t *testing.T) {
	s, two := newSite(t, 1), 2
	r := request(0)
	r.Expect = &two
	_, err := s.service.Follow(as(t), Request(r))
	wantStatus(t, err, http.StatusConflict, "1 message matches, 2 expected: nothing was changed")
}

// What another connection has for itself gives its messages to nobody.
func TestAnExclusiveQueueIsNotAdopted(t *testing.T) {
	s := newSite(t, 0)
	_, err := s.broker.Channel(t).QueueDeclare("mine", false, false, true, false, nil)
	must(t, err)
	r := request(0)
	r.Queue = "mine"
	_, err = s.previewAdoption(as(t), &PreviewInput{r})
	wantStatus(t, err, http.StatusConflict, `queue "mine" is exclusive to another connection`)
}

func TestAnOwnQueueIsNotAdopted(t *testing.T) {
	s := newSite(t, 0)
	r := request(0)
	r.Queue = s.service.System.Topology().Poison()
	_, err := s.startAdoption(as(t), &StartInput{Body: r})
	wantStatus(t, err, http.StatusConflict, `queue "watership.poison" is Watership's own`)
}

// The number of a preview is that of a limit, if the queue has more.
func TestAPreviewCountsUpToItsLimit(t *testing.T) {
	s := newSite(t, 3)
	for limit, want := range map[int]int{0: 3, 2: 2, 9: 3} {
		out, err := s.previewAdoption(as(t), &PreviewInput{request(limit)})
		if err != nil || out.Body.Matched != want || out.Body.Failures != want {
			t.Errorf("limit %d: %+v, %v", limit, out.Body, err)
		}
		rabbittest.Eventually(t, "the failures are back", func() bool { return s.broker.Len(t, "errors") == 3 })
	}
}

func TestGroupsOfFailuresAreSortedByNumber(t *testing.T) {
	var r Result
	for _, errorType := range []string{"rare", "often", "often"} {
		r.add(Failure{Queue: "orders", ErrorType: errorType})
	}
	r.sort()
	if len(r.Groups) != 2 || r.Groups[0] != (OriginGroup{"orders", "", "often", 2}) || r.Failures != 3 {
		t.Errorf("%+v", r)
	}
}

// A queue whose errors have texts of their own does not fill the memory.
func TestGroupsOfFailuresHaveALimit(t *testing.T) {
	var r Result
	for n := range maxGroups + 5 {
		r.add(Failure{ErrorType: fmt.Sprint(n)})
	}
	r.add(Failure{ErrorType: "0"})
	if r.sort(); len(r.Groups) != maxGroups || r.Failures != maxGroups+6 || r.Groups[0].Failures != 2 {
		t.Errorf("%d groups, %d failures", len(r.Groups), r.Failures)
	}
}

func TestOfUnreadableMessagesTheFirstCauseIsNamed(t *testing.T) {
	var r Result
	r.unreadable(errors.New("first"))
	r.unreadable(errors.New("second"))
	if r.Unreadable != 2 || r.Cause != "first" {
		t.Errorf("%+v", r)
	}
}

func TestTextsAreShortenedBetweenCharacters(t *testing.T) {
	for text, want := range map[string]string{"abc": "abc", "abcd": "abcd", "abcde": "abcd", "abcé": "abc", "日本": "日"} {
		if got := shortened(text, 4); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
