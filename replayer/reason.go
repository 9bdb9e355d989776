package replayer

// Reason is the reason for which a plan leaves an event out. Its values are stable.
type Reason string

// The reasons in plans.
const (
	SameMessage       Reason = "same_message"        // another event of the message is in the plan
	NoQueueFailed     Reason = "no_queue_failed"     // the event is no failure, and the target is the queue that failed
	QuarantinedRecord Reason = "quarantined_record"  // the store refused the event, and it keeps no message of a publisher
	NotAboutMessage   Reason = "not_about_message"   // the event is about the record or a route
	OwnTarget         Reason = "own_target"          // its original exchange, or the queue that failed, is Watership's; another target can take it
	OriginClaimed     Reason = "origin_claimed"      // only a consumer has named its original exchange; the queue that failed can take it
	Unreadable        Reason = "unreadable"          // the document cannot be read
	AlreadyReplayed   Reason = "already_replayed"    // to the same target, unless the job has Again
	HandledSince      Reason = "handled_since"       // the failure was resolved, unless the job has Again
	DiscardedSince    Reason = "discarded_since"     // the failure was discarded, unless the job has Again
	RetryScheduled    Reason = "retry_scheduled"     // the message will be retried, unless the job has Again
	OtherJobSending   Reason = "other_job_sending"   // one of Rivals is sending the message, unless the job has Again
	OtherJobUnknown   Reason = "other_job_unknown"   // one of Rivals may have sent it, which the store does not know yet, unless the job has Again
	ReplayedSincePlan Reason = "replayed_since_plan" // another job has sent it after this one was planned
	ResolvedSincePlan Reason = "resolved_since_plan" // it was handled or discarded after the job was planned
	FilteredOut       Reason = "filtered_out"        // the program of the job leaves it out
	BeyondLimit       Reason = "beyond_limit"        // the job has its maximum number of messages
)

// streamStopped is the reason in a run for a message after one of its stream that failed.
const streamStopped Reason = "stream_stopped"

// Reasons returns all reasons that a plan can have.
func Reasons() []Reason {
	return []Reason{
		SameMessage, NoQueueFailed, QuarantinedRecord, NotAboutMessage, OwnTarget, OriginClaimed, Unreadable, AlreadyReplayed, HandledSince,
		DiscardedSince, RetryScheduled, OtherJobSending, OtherJobUnknown, ReplayedSincePlan, ResolvedSincePlan, FilteredOut, BeyondLimit,
	}
}
