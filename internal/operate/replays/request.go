package replays

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/render/reason"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/replayer"
)

// Request selects the messages of a replay. All criteria must match.
type Request struct {
	Query  string          // in Kibana's language
	IDs    []string        // of messages or events
	Group  string          // error group of failures
	DSL    json.RawMessage // in Elasticsearch's language
	Period system.Period

	// Restrict limits the query to the events of which the caller may replay the
	// messages; nil: no limits.
	Restrict func(query kql.Node) (kql.Node, error)

	// Job has the target and the options; its query is set from the criteria.
	Job replayer.Job
}

// maxIDs is the maximum number of ids in one query.
const maxIDs = 10_000

// Prepare makes the job of a request. It finds the same messages whenever it is
// resumed: times relative to now become absolute, and are refused in DSL. Mistakes are
// InputErrors.
func Prepare(language system.Language, request Request) (replayer.Job, error) {
	job := request.Job
	if err := reason.Check(job.Reason); err != nil {
		return job, system.InputError{Err: err}
	}
	node, err := newQuery(language, request)
	if err != nil {
		return job, err
	}
	fields, err := eventstore.Fields()
	if err != nil {
		return job, err
	}
	job.Query, job.DSL = kql.AbsoluteTimes(node, fields, time.Now()).String(), request.DSL
	return job, CheckDSL(request.DSL)
}

func newQuery(language system.Language, request Request) (kql.Node, error) {
	if len(request.IDs) > maxIDs {
		return nil, system.InputErrorf("%d ids: at most %d are possible in one replay, so use a query or several replays", len(request.IDs), maxIDs)
	}
	var all kql.And
	if len(request.IDs) > 0 {
		all = append(all, eventstore.ByName(request.IDs))
	}
	if request.Group != "" { // only permanent failures: attempts with the same error may have succeeded later
		all = append(all, history.GivenUp(), kql.FieldIs("watership.error_group", request.Group))
	}
	if request.Query != "" || len(all) == 0 {
		node, err := language.ParseQueryIn(request.Query, cmp.Or(request.Period.Zone, time.Local))
		if err != nil {
			return nil, err
		}
		all = append(all, node)
	}
	var node kql.Node = all
	if len(all) == 1 {
		node = all[0]
	}
	if request.isOrderedByPublish() {
		node = history.PublishedByDefault(node)
	}
	node, err := request.Period.Limit(node)
	if err != nil || request.Restrict == nil {
		return node, err
	}
	return request.Restrict(node)
}

// isOrderedByPublish reports whether a replay keeps the order of streams, and names messages by
// a query alone: a message may be handled, and recorded as that, before its published event is.
// A queue that failed needs the events of its failures.
func (r Request) isOrderedByPublish() bool {
	return r.Job.Order != "" && r.Job.Target.Kind != replayer.ToFailedQueue && len(r.IDs) == 0 && r.Group == "" && r.DSL == nil
}

// relativeTime is date math from now on
// (https://www.elastic.co/guide/en/elasticsearch/reference/8.19/common-options.html#date-math).
const relativeTime = `"now(["+/-]|\|\|)`

// CheckDSL returns an InputError if a query in DSL has times relative to now.
func CheckDSL(dsl json.RawMessage) error {
	if found := regexp.MustCompile(relativeTime).FindString(string(dsl)); found != "" {
		return system.InputError{Err: &system.FieldError{
			Fields: []system.Field{system.DSLField}, Problem: fmt.Sprintf("has %s, which is another time later: write the time itself", found),
		}}
	}
	return nil
}

// PlanWarnings returns the conflicts of a plan with other jobs that Again allows, and the gaps
// in the records of earlier replays.
func PlanWarnings(plan replayer.Plan) (warnings []string) {
	warn := func(format string, values ...any) { warnings = append(warnings, fmt.Sprintf(format, values...)) }
	for _, rival := range plan.Rivals {
		switch {
		case rival.Running && plan.Job.Again:
			warn("job %s of %s is sending to the same target now, and has %d of these messages", rival.Job.ID, wording.OneLine(cmp.Or(rival.Job.Operator, "another operator")), rival.Messages)
		case !rival.Running && !plan.Job.Again:
			warn("the record of %s that job %s sent is not in the store yet: run watership serve, and repeat this", wording.Plural(int(rival.Unrecorded), "message"), rival.Job.ID)
		}
	}
	if plan.Log.Events > 0 && plan.Log.Consumers == 0 {
		warn("no serve stores %s in the log, so it is not known what was replayed, handled or failed lately: run watership serve", wording.Plural(plan.Log.Events, "event"))
	}
	if plan.Unreadable > 0 {
		warn("%s cannot be read, so it is not known what was sent by them: the list of jobs says why", wording.Plural(plan.Unreadable, "job"))
	}
	return warnings
}

const outcomesInterval = 500 * time.Millisecond

// AwaitOutcomes waits until consumers have reported about all messages that a job has
// sent, or until the timeout.
func AwaitOutcomes(ctx context.Context, via operation.Via, job replayer.Job, timeout time.Duration) (Outcomes, error) {
	deadline := time.Now().Add(timeout)
	for {
		found, err := GetOutcomes.Call(ctx, via, JobInput{job.ID})
		outcomes := found.Body
		if err != nil || outcomes.Handled+outcomes.Failed >= job.Sent || time.Now().After(deadline) {
			return outcomes, err
		}
		if err := backoff.Sleep(ctx, outcomesInterval); err != nil {
			return outcomes, err
		}
	}
}
