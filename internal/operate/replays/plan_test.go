package replays

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
	"github.com/watershipmq/watership/internal/operation/eventjson"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/schemas"
)

// plan plans a replay as an operator without limits.
func (r *replaying) plan(t *testing.T, of Replay) Plan {
	t.Helper()
	got, err := PlanReplay.Call(operator(t, "ann"), r, PlanInput{of})
	must(t, err)
	return got.Body
}

func TestAPlanCountsMessagesByQueue(t *testing.T) {
	r := newReplaying(t)
	busy, calm := r.broker.Queue(t, nil), r.broker.Queue(t, nil)
	systemtest.Record(t, r.sys, poisoned(calm, "m-1"), poisoned(busy, "m-2"), poisoned(busy, "m-3"))
	plan := r.plan(t, toFailedQueue())
	want := []PlanRoute{{Queue: busy, Messages: 2}, {Queue: calm, Messages: 1}}
	if diff := cmp.Diff(want, plan.Routes); plan.Matched != 3 || diff != "" {
		t.Errorf("%d messages\n%s", plan.Matched, diff)
	}
}

func TestAPlanSaysWhenItsEventsWere(t *testing.T) {
	r := newReplaying(t)
	queue := r.broker.Queue(t, nil)
	first, last := poisoned(queue, "m-1"), poisoned(queue, "m-2")
	last.Time = time.Now().UTC().Truncate(time.Second)
	first.Time = last.Time.Add(-time.Hour)
	systemtest.Record(t, r.sys, first, last)
	plan := r.plan(t, toFailedQueue())
	if plan.First == nil || !plan.First.Equal(first.Time) || plan.Last == nil || !plan.Last.Equal(last.Time) {
		t.Errorf("from %v to %v", plan.First, plan.Last)
	}
}

func TestAPlanOfNothingIsNoProblem(t *testing.T) {
	plan := newReplaying(t).plan(t, toFailedQueue())
	if plan.Matched != 0 || plan.First != nil || plan.Effects != nil || plan.Problem != "" || len(plan.Warnings) != 0 {
		t.Errorf("%+v", plan)
	}
}

// The first few show what the rest may be, without the bodies that the caller may not read.
func TestAPlanHasASampleWithoutBodies(t *testing.T) {
	r := newReplaying(t)
	systemtest.Record(t, r.sys, poisoned(r.broker.Queue(t, nil), "m-1"))
	plan := r.plan(t, toFailedQueue())
	text, err := json.Marshal(plan.Sample)
	must(t, err)
	if len(plan.Sample) != 1 || !strings.Contains(string(text), "no stock") || strings.Contains(string(text), `"order"`) {
		t.Errorf("%s", text)
	}
}

func TestAPlanSendsNothing(t *testing.T) {
	r := newReplaying(t)
	queue := r.broker.Queue(t, nil)
	systemtest.Record(t, r.sys, poisoned(queue, "m-1"))
	r.plan(t, toFailedQueue())
	page, err := ListReplays.Call(operator(t, "ann"), r, JobsInput{})
	must(t, err)
	if n := r.broker.Len(t, queue); n != 0 || len(page.Body.Jobs) != 0 || len(r.runs.started) != 0 {
		t.Errorf("%d messages, jobs %+v", n, page.Body.Jobs)
	}
}

func TestAPlanToAQueueThatIsGone(t *testing.T) {
	r := newReplaying(t)
	systemtest.Record(t, r.sys, poisoned("gone", "m-1"), poisoned("gone", "m-2"))
	plan := r.plan(t, toFailedQueue())
	if plan.ProblemCode != Unroutable || plan.Problem != "2 messages would reach no queue" || plan.Routes[0].Unroutable != 2 {
		t.Errorf("%+v", plan)
	}
}

func TestUncheckedRoutesAreNoProblem(t *testing.T) {
	r := newReplaying(t)
	systemtest.Record(t, r.sys, poisoned("gone", "m-1"))
	replay := toFailedQueue()
	replay.UncheckedRoutes = true
	if plan := r.plan(t, replay); plan.Problem != "" || !plan.Routes[0].Unchecked || plan.Routes[0].Unroutable != 0 {
		t.Errorf("%+v", plan)
	}
}

func TestAPlanCountsWhatIsBeyondItsLimit(t *testing.T) {
	r := newReplaying(t)
	queue := r.broker.Queue(t, nil)
	systemtest.Record(t, r.sys, poisoned(queue, "m-1"), poisoned(queue, "m-2"), poisoned(queue, "m-3"))
	replay := toFailedQueue()
	replay.Limit = 1
	if plan := r.plan(t, replay); plan.Matched != 1 || plan.LeftOut[replayer.BeyondLimit] != 2 {
		t.Errorf("%d messages, left out: %v", plan.Matched, plan.LeftOut)
	}
}

func TestAPlanNamesIDsOfNothing(t *testing.T) {
	r := newReplaying(t)
	systemtest.Record(t, r.sys, poisoned(r.broker.Queue(t, nil), "m-1"))
	plan := r.plan(t, Replay{Choice: eventfilter.Choice{IDs: []string{"m-11", "m-1", "m-1"}}, Target: Target{Kind: "failed_queue"}})
	if diff := cmp.Diff([]string{"m-11"}, plan.Unknown); plan.Matched != 1 || diff != "" {
		t.Errorf("%d messages\n%s", plan.Matched, diff)
	}
}

func TestAPlanOfAGroupHasItsFailuresAlone(t *testing.T) {
	r := newReplaying(t)
	queue := r.broker.Queue(t, nil)
	other := poisoned(queue, "m-2")
	other.Failure.Message = "no price"
	again := poisoned(queue, "m-3")
	again.Action = schemas.RetryScheduled // which may have been handled later
	systemtest.Record(t, r.sys, poisoned(queue, "m-1"), other, again)
	if plan := r.plan(t, Replay{Group: "no stock", Target: Target{Kind: "failed_queue"}}); plan.Matched != 1 {
		t.Errorf("%d messages", plan.Matched)
	}
}

// Copies that a route has parked stay where they are.
func TestAPlanNamesParkedCopies(t *testing.T) {
	r := newReplaying(t)
	queue := r.broker.Queue(t, nil)
	parking := r.sys.Topology().Parking(queue)
	_, err := r.broker.Channel(t).QueueDeclare(parking, true, false, false, false, nil)
	must(t, err)
	r.broker.Publish(t, parking, amqp.Publishing{MessageId: "m-1"})
	rabbittest.Eventually(t, "the copy is parked", func() bool { return r.broker.Len(t, parking) == 1 })
	systemtest.Record(t, r.sys, poisoned(queue, "m-1"))
	plan := r.plan(t, toFailedQueue())
	if len(plan.Parked) != 1 || plan.Parked[0].Queue != parking || plan.Parked[0].Messages != 1 {
		t.Errorf("%+v", plan.Parked)
	}
}

// A client of a request waits no longer, or would get two replies.
func TestAPlanCountsRequests(t *testing.T) {
	r := newReplaying(t)
	request := poisoned(r.broker.Queue(t, nil), "m-1")
	request.Envelope.Properties.ReplyTo = "replies"
	systemtest.Record(t, r.sys, request)
	replay := toFailedQueue()
	if plan := r.plan(t, replay); plan.RepliesDropped != 1 || plan.Replies != 0 {
		t.Errorf("dropped: %d, sent with: %d", plan.RepliesDropped, plan.Replies)
	}
	replay.Changes.KeepReplyTo = true
	if plan := r.plan(t, replay); plan.RepliesDropped != 0 || plan.Replies != 1 {
		t.Errorf("kept: %d, sent without: %d", plan.Replies, plan.RepliesDropped)
	}
}

func TestAPlanShowsWhatAProgramChanges(t *testing.T) {
	r := newReplaying(t)
	queue := r.broker.Queue(t, nil)
	systemtest.Record(t, r.sys, poisoned(queue, "m-1"), poisoned(queue, "m-2"), poisoned(queue, "m-3"))
	replay := toFailedQueue()
	replay.Transform = `if .body.order == "m-1" then .body.fixed = true elif .body.order == "m-2" then null else error("no price") end`
	plan, err := PlanReplay.Call(access.NewContext(t.Context(), access.AsOperator("ann")), r, PlanInput{replay})
	must(t, err)
	got := plan.Body
	if got.Matched != 2 || got.LeftOut[replayer.FilteredOut] != 1 || got.Untransformed != 1 || len(got.Examples) != 2 ||
		!strings.Contains(string(got.Examples[0].After), `"fixed":true`) || !strings.Contains(got.Examples[1].Problem, "no price") {
		t.Errorf("%+v", got)
	}
}

// Two operators replay the same: the second plan leaves out what the first one's job sends.
func TestAPlanNamesAJobThatSendsTheSame(t *testing.T) {
	r := newReplaying(t)
	queue := r.broker.Queue(t, nil)
	systemtest.Record(t, r.sys, poisoned(queue, "m-1"), poisoned(queue, "m-2"))
	save(t, r.sys, replayer.Job{
		ID: "other", Query: `watership.queue: "` + queue + `"`, Operator: "bob", State: replayer.Running, UpTo: 1, Total: 1, Sent: 1,
		Target: replayer.Target{Kind: replayer.ToFailedQueue}, Created: time.Now(), Updated: time.Now(),
	})
	plan := r.plan(t, toFailedQueue())
	if len(plan.Rivals) != 1 || plan.Matched != 1 || plan.LeftOut[replayer.OtherJobSending] != 1 {
		t.Fatalf("%+v", plan)
	}
	if rival := plan.Rivals[0]; rival.Job != "other" || rival.Operator != "bob" || !rival.Running || rival.Messages != 1 {
		t.Errorf("%+v", rival)
	}
}

// Who has limits sees that another job sends the same messages, and not whose it is.
func TestTheOperatorOfAJobThatTheCallerMayNotSee(t *testing.T) {
	r := newReplaying(t)
	queue := r.broker.Queue(t, nil)
	systemtest.Record(t, r.sys, poisoned(queue, "m-1"))
	save(t, r.sys, replayer.Job{
		ID: "other", Query: "*", Operator: "bob", State: replayer.Running, UpTo: 1, Total: 1, Sent: 1,
		Target: replayer.Target{Kind: replayer.ToFailedQueue}, Created: time.Now(), Updated: time.Now(),
	})
	plan, err := PlanReplay.Call(operator(t, "ann", queue), r, PlanInput{toFailedQueue()})
	must(t, err)
	if len(plan.Body.Rivals) != 1 || plan.Body.Rivals[0].Job != "other" || plan.Body.Rivals[0].Operator != "" {
		t.Errorf("%+v", plan.Body.Rivals)
	}
}

func TestAPlanHasTheMessagesOfTheCallersQueuesAlone(t *testing.T) {
	r := newReplaying(t)
	mine, other := r.broker.Queue(t, nil), r.broker.Queue(t, nil)
	systemtest.Record(t, r.sys, poisoned(mine, "m-1"), poisoned(other, "m-2"))
	plan, err := PlanReplay.Call(operator(t, "ann", mine), r, PlanInput{toFailedQueue()})
	must(t, err)
	if plan.Body.Matched != 1 || plan.Body.Routes[0].Queue != mine {
		t.Errorf("%+v", plan.Body.Routes)
	}
}

// The origin of a message is an exchange, to which a caller with limits may publish or not.
func TestOriginsThatTheCallerMayNotUse(t *testing.T) {
	r := newReplaying(t)
	queue := r.broker.Queue(t, nil)
	other := poisoned(queue, "m-2")
	other.Envelope.Exchange = "bank"
	systemtest.Record(t, r.sys, poisoned(queue, "m-1"), other)
	replay := toFailedQueue()
	replay.Target, replay.UncheckedRoutes = Target{Kind: "origin"}, true
	ann := access.Identity{Name: "ann", Method: access.ByToken, Role: access.Operator, Queues: []string{queue}, Exchanges: []string{"sh*"}}
	plan, err := PlanReplay.Call(access.NewContext(t.Context(), ann), r, PlanInput{replay})
	must(t, err)
	if plan.Body.Matched != 1 || plan.Body.Routes[0].Exchange != "shop" {
		t.Errorf("%+v", plan.Body.Routes)
	}
	_, err = PlanReplay.Call(operator(t, "ann", queue), r, PlanInput{replay})
	wantRefused(t, err, http.StatusForbidden, "ann may publish to no exchange, and the origin of a message is one", "Use the target failed_queue.")
}

func TestReplaysThatCannotBeMeant(t *testing.T) {
	r, key := newStored(t), "k"
	all, failed := eventfilter.Choice{Filter: eventfilter.Filter{Query: "*"}}, Target{Kind: "failed_queue"}
	for name, test := range map[string]struct {
		replay         Replay
		detail, remedy string
	}{
		"no criterion":       {Replay{Target: failed}, "expected query, ids, dsl or group", `Give the query "*" to replay everything there is.`},
		"a blank query":      {Replay{Choice: eventfilter.Choice{Filter: eventfilter.Filter{Query: " "}}, Target: failed}, "expected query, ids, dsl or group", `Give the query "*" to replay everything there is.`},
		"no queue":           {Replay{Choice: all, Target: Target{Kind: "queue"}}, "target.queue is for the kind queue, which needs it", ""},
		"a queue too many":   {Replay{Choice: all, Target: Target{Kind: "origin", Queue: "orders"}}, "target.queue is for the kind queue, which needs it", ""},
		"an exchange":        {Replay{Choice: all, Target: Target{Kind: "origin", Exchange: "shop"}}, "target.exchange and target.routing_key are for the kind exchange", ""},
		"a routing key":      {Replay{Choice: all, Target: Target{Kind: "failed_queue", Key: &key}}, "target.exchange and target.routing_key are for the kind exchange", ""},
		"an own queue":       {Replay{Choice: all, Target: Target{Kind: "queue", Queue: "watership.poison"}}, "watership.poison is one of Watership's own", "Choose a queue or an exchange of your system."},
		"an own exchange":    {Replay{Choice: all, Target: Target{Kind: "exchange", Exchange: "watership.events"}}, "watership.events is one of Watership's own", "Choose a queue or an exchange of your system."},
		"a zone":             {Replay{Choice: eventfilter.Choice{Filter: eventfilter.Filter{Query: "*", Zone: "Nowhere"}}, Target: failed}, "zone: unknown time zone Nowhere", "Give a name of the IANA time zone database, such as Europe/Berlin, or an offset such as +02:00."},
		"a ramp":             {Replay{Choice: all, Target: failed, Schedule: Schedule{Ramp: &Ramp{StopIf: []string{"2%"}}}}, `ramp: the limit "2%": expected`, ""},
		"a change":           {Replay{Choice: all, Target: failed, Changes: Changes{SetHeaders: []string{"tenant"}}}, "changes: ", ""},
		"an own header":      {Replay{Choice: all, Target: failed, Changes: Changes{SetHeaders: []string{"watership-queue=a"}}}, "changes: ", ""},
		"a program":          {Replay{Choice: all, Target: failed, Transform: ".body |= nosuch"}, "transform: ", ""},
		"a program on files": {Replay{Choice: all, Target: failed, Transform: "input"}, "transform: ", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := PlanReplay.Call(caller(t, "ann"), r, PlanInput{test.replay})
			wantRefused(t, err, http.StatusBadRequest, test.detail, test.remedy)
		})
	}
}

// Neither the target nor a copy nor a program sends messages where the caller may not publish.
func TestTargetsBeyondTheLimitsOfACaller(t *testing.T) {
	r, mail := newStored(t), "mail"
	all, failed := eventfilter.Choice{Filter: eventfilter.Filter{Query: "*"}}, Target{Kind: "failed_queue"}
	ann := access.Identity{Name: "ann", Method: access.ByToken, Role: access.Operator, Bodies: true, Queues: []string{"orders"}, Exchanges: []string{"shop", ""}}
	for name, test := range map[string]struct {
		replay         Replay
		detail, remedy string
	}{
		"a queue":              {Replay{Target: Target{Kind: "queue", Queue: "mail"}}, "ann may not use the queue mail", "Ask for a token for it."},
		"an exchange":          {Replay{Target: Target{Kind: "exchange", Exchange: "bank"}}, `ann may not use the exchange "bank"`, "Ask for a token for it."},
		"the default exchange": {Replay{Target: Target{Kind: "exchange", Key: &mail}}, "ann may not use the queue mail", "Ask for a token for it."},
		"a copy":               {Replay{Target: failed, Changes: Changes{SetHeaders: []string{"CC=mail"}}}, "the headers CC and BCC reach other queues, and ann is limited to some", "Replay to each queue."},
		"a copy with a type":   {Replay{Target: failed, Changes: Changes{SetHeaders: []string{"BCC:string=mail"}}}, "the headers CC and BCC reach other queues, and ann is limited to some", "Replay to each queue."},
		"a program":            {Replay{Target: Target{Kind: "exchange", Exchange: "shop"}, Transform: `.exchange = "bank"`}, "a program can change the exchange and the routing key, and ann is limited to some", "Use the target queue or failed_queue."},
	} {
		t.Run(name, func(t *testing.T) {
			test.replay.Choice = all
			_, err := PlanReplay.Call(access.NewContext(t.Context(), ann), r, PlanInput{test.replay})
			wantRefused(t, err, http.StatusForbidden, test.detail, test.remedy)
		})
	}
}

// What a program says about a message tells its body.
func TestAProgramNeedsThePermissionToReadBodies(t *testing.T) {
	replay := toFailedQueue()
	replay.Transform = ".body.order"
	_, err := PlanReplay.Call(operator(t, "ann"), newStored(t), PlanInput{replay})
	if err == nil {
		t.Error("a caller without bodies has planned with a program")
	}
}

func TestAQueryOfBodiesNeedsThePermissionToReadThem(t *testing.T) {
	replay := toFailedQueue()
	replay.Query = "body.json.order: 1"
	_, err := PlanReplay.Call(operator(t, "ann"), newStored(t), PlanInput{replay})
	wantRefused(t, err, http.StatusForbidden, "body.json.order searches bodies, which the caller may not read",
		"Ask an administrator for a token with the permission to read bodies, or for bodies in http.auth.oidc.roles.")
}

// Elasticsearch's language may look up what other queries do not show.
func TestDSLIsForCallersWithoutLimits(t *testing.T) {
	replay := Replay{Choice: eventfilter.Choice{DSL: map[string]any{"term": map[string]any{"watership.queue": "mail"}}}, Target: Target{Kind: "failed_queue"}}
	_, err := PlanReplay.Call(operator(t, "ann", "orders"), newStored(t), PlanInput{replay})
	wantRefused(t, err, http.StatusForbidden, "a query in Elasticsearch's language needs access to all queues, exchanges and bodies", "Write the query in KQL.")
}

// A job of SQLite could not be run.
func TestDSLOnSQLite(t *testing.T) {
	replay := Replay{Choice: eventfilter.Choice{DSL: map[string]any{"match_all": map[string]any{}}}, Target: Target{Kind: "failed_queue"}}
	_, err := PlanReplay.Call(access.NewContext(t.Context(), access.AsOperator("ann")), newReplaying(t), PlanInput{replay})
	if err == nil || !strings.Contains(err.Error(), "Elasticsearch") {
		t.Errorf("%v", err)
	}
}

// A later start sends what the plan has counted, or nothing.
func TestAPlanIsStartedWithItsNumbers(t *testing.T) {
	out := PlanOutput{Body: Plan{Found: operation.Found{Matched: 3, UpTo: 17}}}
	in := out.Start("k-1", toFailedQueue())
	if in.Key != "k-1" || in.Body.UpTo != 17 || in.Body.Expect == nil || *in.Body.Expect != 3 || in.Body.Query != "action: poisoned" {
		t.Errorf("%+v", in)
	}
}

func TestPlansTravelAsJSON(t *testing.T) {
	at := time.Date(2026, 5, 4, 3, 0, 0, 0, time.UTC)
	got, err := Plan{
		Found: operation.Found{Matched: 2}, First: &at, Last: &at, LeftOut: LeftOut{replayer.BeyondLimit: 4}, LogEvents: 5, LogConsumers: 6,
		Routes:   []PlanRoute{{Exchange: "shop", RoutingKey: "k", Messages: 2, Unroutable: 1, Unchecked: true}},
		Examples: []PlanExample{{EventID: "e", Problem: "no price"}},
		Rivals:   []Rival{{Job: "j", Operator: "bob", Running: true, Messages: 1, Unrecorded: 7}},
		Sample:   []eventjson.Document{eventjson.Document(schemas.DocumentFormat{}.Append(nil, poisoned("orders", "m-1")))},
	}.Replayer()
	must(t, err)
	if got.Matched != 2 || !got.First.Equal(at) || got.LeftOut[replayer.BeyondLimit] != 4 || got.Log != (replayer.Log{Events: 5, Consumers: 6}) || got.Examples[0].Problem != "no price" {
		t.Errorf("%+v", got)
	}
	if diff := cmp.Diff([]replayer.Route{{Exchange: "shop", RoutingKey: "k", Messages: 2, Unroutable: 1, Unchecked: true}}, got.Routes); diff != "" {
		t.Error(diff)
	}
	if rival := got.Rivals[0]; rival.Job.ID != "j" || rival.Job.Operator != "bob" || !rival.Running || rival.Messages != 1 || rival.Unrecorded != 7 {
		t.Errorf("%+v", rival)
	}
	if got.Sample[0].Envelope.Properties.MessageID != "m-1" || got.Sample[0].Failure.Message != "no stock" {
		t.Errorf("%+v", got.Sample[0])
	}
}

// A server of a later release may have documents that this one cannot read.
func TestAPlanWithASampleThatCannotBeRead(t *testing.T) {
	if _, err := (Plan{Sample: []eventjson.Document{eventjson.Document(`["no document"]`)}}).Replayer(); err == nil {
		t.Error("the sample is read")
	}
}

func TestRemediesOfPlans(t *testing.T) {
	for name, test := range map[string]struct {
		problem PlanError
		want    string
	}{
		"none arrive": {PlanError{Unroutable, 2, 2}, "bring the routes back, or go on with --unchecked-routes"},
		"some do":     {PlanError{Unroutable, 1, 2}, "bring the routes back, narrow the query, or go on with --unchecked-routes"},
		"sent before": {PlanError{MaybeSent, 2, 0}, ""},
		"behind":      {PlanError{RecordBehind, 2, 2}, ""},
	} {
		if got := test.problem.Remedy("--unchecked-routes"); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
