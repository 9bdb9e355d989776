package schemas

import (
	"strings"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/watershipmq/watership/schemas/internal/headertext"
)

// WireVersion is the version of the headers below. Watership keeps a message with a
// newer version unchanged.
const WireVersion = 1

// Watership's headers. None begins with "x-", which RabbitMQ reserves.
const (
	headerPrefix = "watership-"

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

// Headers with a meaning in RabbitMQ
// (https://www.rabbitmq.com/docs/sender-selected,
// https://www.rabbitmq.com/docs/message-interceptors).
const (
	headerCC         = "CC"
	headerBCC        = "BCC"
	headerBrokerTime = "timestamp_in_ms"
)

// The size limits of Watership's headers, since all headers of a message share one
// frame.
const (
	errorBudget    = 1 << 10 // bytes
	stackBudget    = 8 << 10 // bytes
	progressBudget = 4 << 10 // bytes
)

// SetByBroker reports whether RabbitMQ itself writes a header
// (https://www.rabbitmq.com/docs/dlx#effects). Brokers before 4.0 trust an x-death
// that a client publishes, so Watership never publishes one.
func SetByBroker(name string) bool {
	if name == "x-death" || countsDeliveries(name) {
		return true
	}
	return strings.HasPrefix(name, "x-first-death-") || strings.HasPrefix(name, "x-last-death-")
}

// PublisherHeaders returns a copy of the headers with only those that a publisher may
// set. It omits the headers of Watership and the headers that RabbitMQ itself writes,
// which have no meaning in another message.
func (e Envelope) PublisherHeaders() amqp.Table { return without(e.Headers, isStateHeader, 0) }

func countsDeliveries(name string) bool {
	return name == "x-delivery-count" || name == "x-acquired-count"
}

// typedTable reads and writes the values of a table, with any type that a client gave
// them.
type typedTable amqp.Table

func (h typedTable) text(name string) string {
	s, _ := h[name].(string)
	return s
}

func (h typedTable) int(name string) int64 { return headertext.Integer(h[name]) }

// delay returns a number of milliseconds, up to the longest time of a delay queue.
func (h typedTable) delay(name string) time.Duration {
	return time.Duration(min(max(0, h.int(name)), longestDelay.Milliseconds())) * time.Millisecond
}

func (h typedTable) time(name string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, h.text(name))
	if err != nil {
		return time.Time{}
	}
	return t
}

func (h typedTable) setText(name, value string) {
	if value != "" {
		h[name] = value
	}
}

func (h typedTable) setInt(name string, value int64) {
	if value != 0 {
		h[name] = value
	}
}

func (h typedTable) setFlag(name string, value bool) {
	if value {
		h[name] = int64(1)
	}
}

func (h typedTable) setTime(name string, value time.Time) {
	if !value.IsZero() {
		h[name] = value.UTC().Format(time.RFC3339Nano)
	}
}

// wholeOrNothing returns s, or "" if it is longer than limit bytes: a part of it means
// nothing to its reader.
func wholeOrNothing(s string, limit int) string {
	if len(s) > limit {
		return ""
	}
	return s
}

// shorten cuts s to at most limit bytes, between two characters.
func shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	const ellipsis = "…"
	if limit < len(ellipsis) {
		return ""
	}
	cut := limit - len(ellipsis)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + ellipsis
}
