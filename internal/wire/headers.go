package wire

// Watership's headers. None begins with "x-", which RabbitMQ reserves.
const (
	headerVersion      = "watership-v"
	headerFingerprint  = "watership-fingerprint"
	headerMessage      = "watership-message"
	headerQueue        = "watership-queue"
	headerAttempt      = "watership-attempt"
	headerExchange     = "watership-origin-exchange"
	headerRoutingKey   = "watership-origin-routing-key"
	headerFirstFailed  = "watership-first-failed"
	headerError        = "watership-error"
	headerErrorType    = "watership-error-type"
	headerErrorClass   = "watership-error-class"
	headerErrorRule    = "watership-error-rule"
	headerErrorGroup   = "watership-error-group"
	headerStack        = "watership-stack"
	headerEventID      = "watership-event-id"
	headerTime         = "watership-time"
	headerAttempts     = "watership-attempts"
	headerDelay        = "watership-delay"
	headerWaits        = "watership-waits"
	headerWaitsSince   = "watership-waits-since"
	headerElapsed      = "watership-elapsed"
	headerNotBefore    = "watership-not-before"
	headerUndecided    = "watership-undecided"
	headerMissing      = "watership-missing-since"
	headerDeliveries   = "watership-deliveries"
	headerSuspect      = "watership-suspect"
	headerPosition     = "watership-position"
	headerRoute        = "watership-route"
	headerPark         = "watership-park"
	headerSent         = "watership-sent"
	headerStarted      = "watership-started"
	headerReceiver     = "watership-receiver"
	headerAnswer       = "watership-answer"
	headerTrace        = "watership-trace"
	headerDuration     = "watership-duration"
	headerParent       = "watership-parent"
	headerProgress     = "watership-progress"
	headerClaimed      = "watership-origin-claimed"
	headerUntapped     = "watership-untapped"
	headerReplay       = "watership-replay"
	headerSubscription = "watership-subscription"
	headerSubscribedAt = "watership-subscription-position"
	headerSubscribed   = "watership-subscription-action"
	headerSubOrder     = "watership-subscription-order"
	headerStream       = "watership-stream"
	headerAudit        = "watership-audit"
	headerTriage       = "watership-triage"
	headerReplayOf     = "watership-replay-of"
	headerBodySize     = "watership-body-size"
	headerSignature    = "watership-signature"
	headerBodyIn       = "watership-body-in"

	headerStreamVersion = "watership-stream-version"

	headerExpiration   = "watership-expiration"
	headerUserID       = "watership-user-id"
	headerCarbonCopy   = "watership-cc"
	headerPriority     = "watership-priority"
	headerDeliveryMode = "watership-delivery-mode"

	// The times that RabbitMQ may overwrite on each hop, if it is configured to:
	// see saveTimes.
	headerTimestamp  = "watership-timestamp"
	headerBrokerCopy = "watership-timestamp-in-ms"
)

// The size limits of Watership's headers, since all headers of a message share one
// frame.
const (
	errorBudget    = 1 << 10 // bytes
	stackBudget    = 8 << 10 // bytes
	progressBudget = 4 << 10 // bytes
	traceLength    = 55      // bytes
)

// wholeOrNothing returns s, or "" if it is longer than limit bytes: a part of it means
// nothing to its reader.
func wholeOrNothing(s string, limit int) string {
	if len(s) > limit {
		return ""
	}
	return s
}
