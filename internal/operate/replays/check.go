package replays

import (
	"fmt"

	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/replayer"
)

// PlanProblem is the code of a reason for which a plan must not be run. Its values are stable.
type PlanProblem string

// The problems of plans.
const (
	Unroutable   PlanProblem = "unroutable"    // messages would reach no queue; unchecked routes allow it
	MaybeSent    PlanProblem = "maybe_sent"    // all messages may have been sent before, which the store does not know yet
	RecordBehind PlanProblem = "record_behind" // the store does not have events that may resolve failures
)

// PlanError is returned for a plan that must not be run.
type PlanError struct {
	Code    PlanProblem
	Count   int // messages, or events of RecordBehind
	Matched int // messages of the plan
}

// Error implements error.
func (e *PlanError) Error() string {
	switch e.Code {
	case Unroutable:
		return wording.Plural(e.Count, "message") + " would reach no queue"
	case MaybeSent:
		return fmt.Sprintf("nothing was sent: %s may have been sent before, which the store does not know yet; run watership serve, and repeat this",
			wording.Plural(e.Count, "message"))
	case RecordBehind:
		return fmt.Sprintf("nothing was sent: failures may have been handled or discarded in %s that the store does not have; "+
			"run watership serve, and repeat this", wording.Plural(e.Count, "event"))
	}
	return string(e.Code)
}

// Remedy returns what to do about messages that would reach no queue, with the name that a face
// has for unchecked routes; "" for the other problems, whose texts say it.
func (e *PlanError) Remedy(unchecked string) string {
	switch {
	case e.Code != Unroutable:
		return ""
	case e.Count < e.Matched:
		return "bring the routes back, narrow the query, or go on with " + unchecked
	}
	return "bring the routes back, or go on with " + unchecked
}

// CheckPlan returns a PlanError if a plan must not be run. An unattended plan has no reader
// of its warnings, so that more of them are errors.
func CheckPlan(plan replayer.Plan, uncheckedRoutes, unattended bool) error {
	unroutable := plan.Unroutable()
	switch {
	case plan.Matched == 0 && plan.Unrecorded() > 0:
		return &PlanError{MaybeSent, plan.Unrecorded(), plan.Matched}
	case plan.Matched == 0:
		return nil
	case unroutable > 0 && !uncheckedRoutes:
		return &PlanError{Unroutable, unroutable, plan.Matched}
	case unattended && plan.Log.Events > 0 && plan.Log.Consumers == 0 && !plan.Job.Again:
		return &PlanError{RecordBehind, plan.Log.Events, plan.Matched}
	}
	return nil
}
