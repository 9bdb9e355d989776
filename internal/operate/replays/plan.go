package replays

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
	"github.com/watershipmq/watership/internal/operation/eventjson"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/replayer/transform"
	"github.com/watershipmq/watership/schemas"
)

// Replay selects messages to send again, and their destination.
type Replay struct {
	eventfilter.Choice
	Group string `json:"group,omitempty" maxLength:"10000" doc:"Only failures of this error group"`

	Target  Target  `json:"target"`
	Changes Changes `json:"changes,omitzero"`

	Transform string `json:"transform,omitempty" maxLength:"65536" doc:"Program in the language of jq that changes each message, after changes: its input and its output have body, headers, properties, exchange and routing_key, and null leaves the message out. It needs the permission to read bodies."`

	Rate float64 `json:"rate,omitempty" minimum:"0" maximum:"1000000" doc:"Maximum messages per second; 0: no limit"`
	Schedule

	Again           bool   `json:"again,omitempty" doc:"Also send messages that were replayed or resolved before"`
	UncheckedRoutes bool   `json:"unchecked_routes,omitempty" doc:"Send even if it cannot be checked that the messages reach a queue"`
	Limit           int    `json:"limit,omitempty" minimum:"0" doc:"Maximum number of messages; 0: no limit"`
	StopAfter       int    `json:"stop_after,omitempty" minimum:"0" doc:"Pause the job after this many messages; resume sends the rest"`
	Expect          *int   `json:"expect,omitempty" minimum:"0" nullable:"true" doc:"Send nothing unless exactly this many messages match"`
	Reason          string `json:"reason,omitempty" maxLength:"1000" doc:"Reason in the job's record"`
}

// Plan describes a replay before it sends anything.
type Plan struct {
	operation.Found
	Problem        string                  `json:"problem,omitempty" doc:"Why the replay would be refused"`
	ProblemCode    PlanProblem             `json:"problem_code,omitempty" enum:"unroutable,maybe_sent,record_behind" doc:"Kind of the problem; unchecked_routes allows unroutable"`
	Warnings       []string                `json:"warnings,omitempty" nullable:"false" doc:"Conflicts with other jobs, and gaps in what is known of them"`
	First          *time.Time              `json:"first,omitempty" doc:"Time of the first event"`
	Last           *time.Time              `json:"last,omitempty" doc:"Time of the last event"`
	Routes         []PlanRoute             `json:"routes" nullable:"false" doc:"Destinations, at most 1000 of them"`
	Effects        *Effects                `json:"effects,omitempty" doc:"What such messages caused before; none: nothing would be sent"`
	LeftOut        LeftOut                 `json:"left_out" doc:"Numbers of events that are left out, by reason"`
	Quarantined    int                     `json:"quarantined" doc:"Messages that are sent from a quarantined event"`
	Bodiless       int                     `json:"bodiless" doc:"Messages that cannot be sent, since the store does not have their bodies"`
	Untransformed  int                     `json:"untransformed" doc:"Messages that cannot be sent, since the program of transform fails"`
	Erased         int                     `json:"erased" doc:"Messages that cannot be sent, since the key of a person whom they are about was destroyed"`
	Examples       []PlanExample           `json:"examples" nullable:"false" doc:"The first few messages that the program of transform changes, and for which it fails"`
	Replies        int                     `json:"replies" doc:"Requests whose clients would get another reply"`
	RepliesDropped int                     `json:"replies_dropped" doc:"Requests that are sent without reply_to"`
	Sample         []eventjson.Document    `json:"sample" nullable:"false" doc:"The first few events"`
	Parked         []failures.ParkedCopies `json:"parked" nullable:"false" doc:"Queues with parked copies, which stay there"`
	LogEvents      int                     `json:"log_events" doc:"Events that the store does not have yet"`
	LogConsumers   int                     `json:"log_consumers" doc:"Processes that store them"`
	Rivals         []Rival                 `json:"rivals" nullable:"false" doc:"Other jobs with some of the messages"`
	Unreadable     int                     `json:"unreadable" doc:"Jobs that cannot be read, so that it is not known what they have sent"`
}

// PlanExample is a message before and after the program of transform.
type PlanExample struct {
	EventID string          `json:"event_id"`
	Before  json.RawMessage `json:"before" doc:"Input of the program"`
	After   json.RawMessage `json:"after,omitempty" doc:"Its output"`
	Problem string          `json:"problem,omitempty" doc:"Why it fails"`
}

// Rival is another job with some of the messages of a plan.
type Rival struct {
	Job        string `json:"job"`
	Operator   string `json:"operator" doc:"Empty if the caller may not see the job"`
	Running    bool   `json:"running" doc:"It is sending now"`
	Messages   int    `json:"messages" doc:"Messages that both have"`
	Unrecorded int64  `json:"unrecorded" doc:"Messages that it has sent, and that the store does not have as replayed yet"`
}

// PlanRoute is a destination of messages.
type PlanRoute struct {
	Exchange   string `json:"exchange,omitempty"`
	RoutingKey string `json:"routing_key,omitempty"`
	Queue      string `json:"queue,omitempty" doc:"The single queue"`
	Others     bool   `json:"others,omitempty" doc:"All other routing keys of the exchange"`
	Messages   int    `json:"messages"`
	Unroutable int    `json:"unroutable" doc:"Messages that would reach no queue"`
	Unchecked  bool   `json:"unchecked,omitempty" doc:"RabbitMQ was not asked"`
}

// MaxPlanRoutes is the number of routes in a plan: one with this number may have more.
const MaxPlanRoutes = 1000

// PlanInput is the input of PlanReplay.
type PlanInput struct{ Body Replay }

// PlanOutput is the output of PlanReplay.
type PlanOutput struct {
	Body Plan

	planned *replayer.Plan // in this process
}

// Start returns the input that starts a replay as it was planned: with the messages that the plan
// counts, or not at all. In this process its caller has checked the plan.
func (p PlanOutput) Start(key string, r Replay) StartInput {
	r.UpTo, r.Expect = p.Body.UpTo, &p.Body.Matched
	return StartInput{operation.IdempotencyKey{Key: key}, r, p.planned}
}

func (o operations) planReplay(ctx context.Context, in *PlanInput) (*PlanOutput, error) {
	plan, err := o.plan(ctx, in.Body)
	if err != nil {
		return nil, err
	}
	if plan.Matched == 0 && len(plan.LeftOut) == 0 {
		if err := o.System.CheckStore(ctx); err != nil { // may be the reason
			return nil, err
		}
	}
	out, err := o.describePlan(ctx, in.Body, plan)
	return &PlanOutput{out, &plan}, err
}

// plan plans a replay, within the limits of the caller.
func (o operations) plan(ctx context.Context, r Replay) (replayer.Plan, error) {
	job, err := o.replayJob(ctx, r)
	if err != nil {
		return replayer.Plan{}, err
	}
	if r.Transform != "" {
		if err := access.ReadBodies(ctx, job.Query); err != nil {
			return replayer.Plan{}, err
		}
	}
	planner, err := Planner(ctx, o.System, r.UncheckedRoutes)
	if err != nil {
		return replayer.Plan{}, err
	}
	return planner.Plan(ctx, job)
}

func (o operations) replayJob(ctx context.Context, r Replay) (replayer.Job, error) {
	caller := access.FromContext(ctx)
	if err := o.checkReplay(caller, r); err != nil {
		return replayer.Job{}, err
	}
	zone, err := r.Location()
	if err != nil {
		return replayer.Job{}, err
	}
	request := Request{
		Query: r.Text(), IDs: eventfilter.SortedIDs(r.IDs), Group: r.Group, Period: r.Period(zone),
		Restrict: func(query kql.Node) (kql.Node, error) {
			node, err := caller.Restrict(query)
			if err == nil {
				err = access.SearchBodies(ctx, query, r.Query)
			}
			if err == nil && r.Target.Kind == string(replayer.ToOrigin) {
				node, err = restrictOrigins(caller, node)
			}
			return node, err
		},
		Job: replayer.Job{
			Target:   r.Target.Replayer(),
			Operator: caller.Name, Reason: r.Reason, Again: r.Again, Limit: r.Limit, Rate: r.Rate, UpTo: r.UpTo,
			DropReplyTo: !r.Changes.KeepReplyTo, Changes: r.Changes.Edits(), Transform: r.Transform,
		},
	}
	if err := r.Schedule.Apply(&request.Job); err != nil {
		return replayer.Job{}, problem.BadRequest("ramp: "+err.Error(), "")
	}
	if text := eventfilter.TextOfDSL(r.DSL); text != "" {
		raw, err := eventfilter.ParseDSL(ctx, text)
		if err == nil {
			err = access.SearchBodies(ctx, raw, text)
		}
		if err != nil {
			return replayer.Job{}, err
		}
		request.DSL = json.RawMessage(raw.JSON)
	}
	return Prepare(o.System.Language, request)
}

// checkReplay refuses requests that cannot be meant, and targets that the caller may not
// use.
func (o operations) checkReplay(caller access.Identity, r Replay) error {
	topology := o.System.Topology()
	switch t := r.Target; {
	case r.IsEmpty() && r.Group == "":
		return problem.BadRequest("expected query, ids, dsl or group", `Give the query "*" to replay everything there is.`)
	case r.Order == replayer.ByVersion && (r.Limit > 0 || r.StopAfter > 0 || r.Ramp != nil):
		return problem.BadRequest(replayer.ErrPartsByVersion.Error(), "")
	case (t.Kind == string(replayer.ToQueue)) != (t.Queue != ""):
		return problem.BadRequest("target.queue is for the kind queue, which needs it", "")
	case t.Kind != string(replayer.ToExchange) && (t.Exchange != "" || t.Key != nil):
		return problem.BadRequest("target.exchange and target.routing_key are for the kind exchange", "")
	case topology.Owns(t.Queue), topology.Owns(t.Exchange):
		return problem.BadRequest(cmp.Or(t.Queue, t.Exchange)+" is one of Watership's own", "Choose a queue or an exchange of your system.")
	case t.Queue != "" && !caller.MayQueue(t.Queue):
		return problem.NotAllowed(caller, "queue", t.Queue)
	case t.Kind == string(replayer.ToExchange):
		key := ""
		if t.Key != nil {
			key = *t.Key
		}
		if err := messages.CheckRoute(caller, t.Exchange, key); err != nil {
			return err
		}
	}
	if caller.Limited() {
		for _, header := range r.Changes.SetHeaders {
			if name, _, _ := strings.Cut(header, "="); messages.IsCopyHeader(strings.Split(name, ":")[0]) {
				return problem.Forbidden("the headers CC and BCC reach other queues, and "+caller.Name+" is limited to some", "Replay to each queue.")
			}
		}
	}
	if err := r.Changes.Edits().Check(); err != nil {
		return problem.BadRequest("changes: "+err.Error(), "")
	}
	return checkTransform(caller, r)
}

// checkTransform refuses a program that cannot run, and one that could send messages to
// exchanges that the caller may not use.
func checkTransform(caller access.Identity, r Replay) error {
	if r.Transform == "" {
		return nil
	}
	if _, err := transform.Parse(r.Transform); err != nil {
		return problem.BadRequest("transform: "+err.Error(), "")
	}
	if t := r.Target.Kind; caller.Limited() && t != string(replayer.ToQueue) && t != string(replayer.ToFailedQueue) {
		return problem.Forbidden("a program can change the exchange and the routing key, and "+caller.Name+" is limited to some", "Use the target queue or failed_queue.")
	}
	return nil
}

// restrictOrigins limits a query to messages whose original exchange the caller may publish
// to.
func restrictOrigins(caller access.Identity, query kql.Node) (kql.Node, error) {
	if !caller.Limited() {
		return query, nil
	}
	var either kql.Or
	for _, text := range caller.Exchanges {
		pattern := kql.Pattern(strings.Split(text, "*"))
		either = append(either, kql.Is{
			Field: kql.Pattern{"messaging.destination.name"}, Value: kql.Value{Pattern: pattern, Quoted: !pattern.Wild()},
		})
	}
	if len(either) == 0 {
		return nil, problem.Forbidden(caller.Name+" may publish to no exchange, and the origin of a message is one", "Use the target failed_queue.")
	}
	return kql.And{query, either}, nil
}

func (o operations) describePlan(ctx context.Context, r Replay, p replayer.Plan) (Plan, error) {
	plan := Plan{
		Found: operation.Found{Matched: p.Matched, UpTo: p.Job.UpTo}, Routes: []PlanRoute{}, LeftOut: LeftOut{}, Quarantined: p.Quarantined, Bodiless: p.Bodiless,
		Untransformed: p.Untransformed, Erased: p.Erased, Examples: []PlanExample{}, Replies: p.Replies, RepliesDropped: p.RepliesDropped, Sample: []eventjson.Document{},
		LogEvents: p.Log.Events, LogConsumers: p.Log.Consumers, Parked: []failures.ParkedCopies{}, Rivals: []Rival{}, Unreadable: p.Unreadable,
	}
	p.Rivals = slices.Clone(p.Rivals)
	for i := range p.Rivals {
		r := &p.Rivals[i]
		if !maySee(ctx, r.Job) {
			r.Job.Operator = ""
		}
		plan.Rivals = append(plan.Rivals, Rival{r.Job.ID, r.Job.Operator, r.Running, r.Messages, r.Unrecorded})
	}
	plan.Warnings = PlanWarnings(p)
	if p.Matched > 0 {
		plan.First, plan.Last = &p.First, &p.Last
	}
	if refused := (*PlanError)(nil); errors.As(CheckPlan(p, r.UncheckedRoutes, true), &refused) {
		plan.Problem, plan.ProblemCode = refused.Error(), refused.Code
	}
	for _, route := range p.Routes[:min(len(p.Routes), MaxPlanRoutes)] {
		plan.Routes = append(plan.Routes, PlanRoute{
			route.Exchange, route.RoutingKey, route.Queue, route.Others, route.Messages, route.Unroutable, route.Unchecked,
		})
	}
	maps.Copy(plan.LeftOut, p.LeftOut)
	for _, e := range p.Examples {
		plan.Examples = append(plan.Examples, PlanExample(e))
	}
	for _, e := range p.Sample {
		plan.Sample = append(plan.Sample, eventjson.Of(ctx, o.System.DocumentFormat(), e))
	}
	var err error
	if plan.Unknown, err = eventfilter.Unknown(ctx, o.System, r.IDs); err != nil {
		return plan, err
	}
	plan.Effects = o.expectEffects(ctx, p.Kinds)
	parked, err := failures.FindParkedCopies(ctx, o.System, p.FailedAt)
	plan.Parked = append(plan.Parked, parked...)
	return plan, err
}

// Replayer returns the plan as package replayer has it, with the first of its routes and without its job.
func (p Plan) Replayer() (replayer.Plan, error) {
	plan := replayer.Plan{
		Matched: p.Matched, LeftOut: p.LeftOut, Untransformed: p.Untransformed, Erased: p.Erased, Bodiless: p.Bodiless, Quarantined: p.Quarantined, Replies: p.Replies, RepliesDropped: p.RepliesDropped,
		Log: replayer.Log{Events: p.LogEvents, Consumers: p.LogConsumers}, Unreadable: p.Unreadable,
	}
	if p.First != nil && p.Last != nil {
		plan.First, plan.Last = *p.First, *p.Last
	}
	for _, r := range p.Routes {
		plan.Routes = append(plan.Routes, replayer.Route{
			Exchange: r.Exchange, RoutingKey: r.RoutingKey, Queue: r.Queue, Others: r.Others, Messages: r.Messages, Unroutable: r.Unroutable, Unchecked: r.Unchecked,
		})
	}
	for _, e := range p.Examples {
		plan.Examples = append(plan.Examples, transform.Example(e))
	}
	for _, r := range p.Rivals {
		plan.Rivals = append(plan.Rivals, replayer.Rival{
			Job: replayer.Job{ID: r.Job, Operator: r.Operator}, Running: r.Running, Messages: r.Messages, Unrecorded: r.Unrecorded,
		})
	}
	for _, document := range p.Sample {
		e, err := schemas.ParseDocument(document)
		if err != nil {
			return plan, err
		}
		plan.Sample = append(plan.Sample, e)
	}
	return plan, nil
}
