package replays

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/schemas"
)

// replaying are the operations on a System, and the jobs that they want to be run.
type replaying struct {
	*operation.Set
	sys    *system.System
	broker rabbittest.Broker
	runs   noStarter
}

// newReplaying returns operations on a System whose events are stored.
func newReplaying(t *testing.T, environ ...string) *replaying {
	t.Helper()
	t.Parallel() // most of it is waiting
	sys, broker := systemtest.Embedded(t, environ...)
	systemtest.Index(t, sys)
	return implement(sys, broker)
}

// newStored returns operations on jobs and events in the store.
func newStored(t *testing.T, jobs ...replayer.Job) *replaying {
	t.Helper()
	t.Parallel() // most of it is waiting
	sys, broker := systemtest.Embedded(t)
	for _, job := range jobs {
		save(t, sys, job)
	}
	return implement(sys, broker)
}

func implement(sys *system.System, broker rabbittest.Broker) *replaying {
	r := &replaying{Set: operation.NewLocal(), sys: sys, broker: broker}
	Implement(r.Set, sys, &r.runs)
	return r
}

// poisoned is the permanent failure of a message at a queue.
func poisoned(queue, id string) schemas.Event {
	e := schemas.Event{Action: schemas.Poisoned, Envelope: schemas.Envelope{
		Exchange: "shop", RoutingKey: "order.created", Body: fmt.Appendf(nil, `{"order": %q}`, id), Properties: schemas.Properties{MessageID: id},
	}}
	e.EventID, e.Queue, e.Failure.Message = "failure-"+id, queue, "no stock"
	e.Fingerprint = e.Envelope.Fingerprint()
	return e
}

// toFailedQueue is a replay of all permanent failures to their queues.
func toFailedQueue() Replay {
	return Replay{Choice: eventfilter.Choice{Filter: eventfilter.Filter{Query: "action: poisoned"}}, Target: Target{Kind: "failed_queue"}}
}

// operator returns a context of an operator who may use some queues alone; none: all.
func operator(t *testing.T, name string, queues ...string) context.Context {
	t.Helper()
	return access.NewContext(t.Context(), access.Identity{Name: name, Method: access.ByToken, Role: access.Operator, Queues: queues})
}

// wantRefused wants a problem with a status, a part of its detail, and a remedy.
func wantRefused(t *testing.T, err error, status int, detail, remedy string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want the status %d and %q", status, detail)
		return
	}
	if p := problem.New(t.Context(), err); p.GetStatus() != status || !strings.Contains(p.Detail, detail) || p.Remedy != remedy {
		t.Errorf("%d %q %q, want %d %q %q", p.GetStatus(), p.Detail, p.Remedy, status, detail, remedy)
	}
}

func TestAViewerReplaysNothing(t *testing.T) {
	r := newStored(t, replayer.Job{ID: "j", State: replayer.Paused, Query: "*"})
	viewer := access.NewContext(t.Context(), access.Identity{Name: "vic", Method: access.ByToken, Role: access.Viewer})
	_, planned := PlanReplay.Call(viewer, r, PlanInput{toFailedQueue()})
	_, started := StartReplay.Call(viewer, r, StartInput{Body: toFailedQueue()})
	_, cancelled := CancelReplay.Call(viewer, r, CancelInput{ID: "j"})
	_, resumed := ResumeReplay.Call(viewer, r, ResumeInput{ID: "j"})
	for what, err := range map[string]error{"plan": planned, "start": started, "cancel": cancelled, "resume": resumed} {
		t.Run(what, func(t *testing.T) {
			wantRefused(t, err, http.StatusForbidden, "vic has the role viewer, and this needs operator", "Ask an administrator for the role.")
		})
	}
}

// Queries and numbers of a job tell about queues.
func TestAJobOfOtherQueuesIsNotFound(t *testing.T) {
	r := newStored(t, replayer.Job{ID: "j", State: replayer.Paused, Query: "watership.queue: mail"})
	limited := operator(t, "ann", "orders")
	_, shown := GetReplay.Call(limited, r, JobInput{"j"})
	_, outcomes := GetOutcomes.Call(limited, r, JobInput{"j"})
	_, watched := WatchReplay.Call(limited, r, JobInput{"j"})
	_, cancelled := CancelReplay.Call(limited, r, CancelInput{ID: "j"})
	_, resumed := ResumeReplay.Call(limited, r, ResumeInput{ID: "j"})
	for what, err := range map[string]error{"show": shown, "outcomes": outcomes, "watch": watched, "cancel": cancelled, "resume": resumed} {
		t.Run(what, func(t *testing.T) {
			wantRefused(t, err, http.StatusNotFound, `there is no job "j"`, "GET /replays lists them.")
		})
	}
	if page, err := ListReplays.Call(limited, r, JobsInput{}); err != nil || len(page.Body.Jobs) != 0 {
		t.Errorf("listed: %+v, %v", page.Body.Jobs, err)
	}
}

func TestAJobWithTheLimitsOfItsReaderIsFound(t *testing.T) {
	r := newReplaying(t)
	orders := r.broker.Queue(t, nil)
	systemtest.Record(t, r.sys, poisoned(orders, "m-1"))
	started, err := StartReplay.Call(operator(t, "ann", orders), r, StartInput{Body: toFailedQueue()})
	must(t, err)
	if got, err := GetReplay.Call(operator(t, "bob", orders), r, JobInput{started.Body.ID}); err != nil || got.Body.Operator != "ann" {
		t.Errorf("%+v, %v", got.Body, err)
	}
}

func TestAJobThatDoesNotExist(t *testing.T) {
	_, err := GetReplay.Call(operator(t, "ann"), newStored(t), JobInput{"nobody"})
	wantRefused(t, err, http.StatusNotFound, `there is no job "nobody"`, "GET /replays lists them.")
}

func TestJobsAreListedNewestFirst(t *testing.T) {
	r := newStored(t, replayer.Job{ID: "1", Query: "*"}, replayer.Job{ID: "2", Query: "*"})
	page, err := ListReplays.Call(operator(t, "ann"), r, JobsInput{})
	must(t, err)
	var ids []string
	for _, job := range page.Body.Jobs {
		ids = append(ids, job.ID)
	}
	if !slices.Equal(ids, []string{"2", "1"}) || page.Body.Cursor != "" {
		t.Errorf("%q, cursor %q", ids, page.Body.Cursor)
	}
}
