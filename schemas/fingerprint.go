package schemas

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/wire/canonical"
	"github.com/watershipmq/watership/internal/wire/fold"
	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/schemas/tablejson"
)

// fingerprintVersion names the encoding below. A change of the encoding needs a new
// version.
const fingerprintVersion = "v1:"

// Fingerprint identifies a message by its content: "v1:" and the SHA-256 (in hex)
// of the parts that neither a broker nor Watership changes on the way. So a message
// has the same fingerprint in the tap's copy, in its queue, and after retries and
// replays. Exchange and routing key must be the values of the first publish.
//
// It excludes expiration, user_id, CC, priority and delivery_mode, which cannot
// travel unchanged; headers that begin with "x-" (RabbitMQ's) or "watership-", and
// BCC; and timestamp and timestamp_in_ms where the latter is present, since then
// the broker set both.
func (e Envelope) Fingerprint() string { return Fingerprints{}.Of(e) }

// Fingerprints computes fingerprints of messages that their consumers publish or
// dead-letter again. All processes of a system need the same settings. The zero value is
// the rule of Envelope.Fingerprint, whose fingerprints stay valid when settings are made.
type Fingerprints struct {
	// IgnoreHeaders are names of headers that change on the way, such as a counter of
	// retries.
	IgnoreHeaders []string

	// FoldDeadLetters: a message that came back through a dead-letter exchange of its
	// consumers has the fingerprint of its first publish, by the oldest entry of x-death
	// (https://www.rabbitmq.com/docs/dlx#effects). RabbitMQ before 4.0 believes an x-death
	// that a service copied from another message, which would then decide.
	FoldDeadLetters bool

	// FoldTypes: the values of headers count, and not their types. Clients of languages
	// with fewer types than AMQP change these when they publish the headers of a message
	// again: an integer of 64 bits becomes one of 32 or 8 bits, bytes become text.
	FoldTypes bool
}

// Of returns the fingerprint of a message.
func (f Fingerprints) Of(e Envelope) string {
	e = f.Origin(e)
	hash := sha256.New()
	hash.Write(e.appendCanonical(make([]byte, 0, 1024), f))
	hash.Write(e.Body) // without a copy, since the body may be large
	text := make([]byte, 0, len(fingerprintVersion)+2*sha256.Size)
	return string(hex.AppendEncode(append(text, fingerprintVersion...), hash.Sum(nil)))
}

// Matches reports whether a message has a fingerprint, by these settings or by none: it may
// have been published before the settings were made.
func (f Fingerprints) Matches(e Envelope, fingerprint string) bool {
	hasSettings := f.FoldDeadLetters || f.FoldTypes || len(f.IgnoreHeaders) > 0
	return f.Of(e) == fingerprint || hasSettings && e.Fingerprint() == fingerprint
}

// Folds reports whether a message is a dead letter that has the fingerprint of its
// first publish.
func (f Fingerprints) Folds(e Envelope) bool {
	return f.FoldDeadLetters && len(header.Deaths(e.Headers)) > 0
}

// Origin returns the message with the exchange and routing key of its first publish, if that has its fingerprint:
// see FoldDeadLetters.
func (f Fingerprints) Origin(e Envelope) Envelope {
	if !f.FoldDeadLetters {
		return e
	}
	if deaths := header.Deaths(e.Headers); len(deaths) > 0 {
		oldest := deaths[len(deaths)-1]
		e.Exchange, e.RoutingKey = oldest.Exchange, oldest.RoutingKey
	}
	return e
}

// appendCanonical appends the canonical encoding up to the bytes of the body.
func (e Envelope) appendCanonical(dst []byte, f Fingerprints) []byte {
	p := e.Properties
	for _, text := range [...]string{
		e.Exchange, e.RoutingKey,
		p.ContentType, p.ContentEncoding, p.CorrelationID, p.ReplyTo, p.MessageID, p.Type, p.AppID,
	} {
		dst = canonical.Text(dst, text)
	}
	dst = canonicalTimestamp(dst, e)
	headers := e.Headers
	if f.FoldTypes {
		headers = fold.Table(headers)
	}
	dst = canonicalHeaders(dst, headers, f.IgnoreHeaders)
	return canonical.Value(dst, '#', uint64(len(e.Body)))
}

func canonicalTimestamp(dst []byte, e Envelope) []byte {
	_, brokerSet := e.Headers[header.BrokerTime]
	if brokerSet || e.Properties.Timestamp.IsZero() {
		return canonical.Value(dst, 'V', 0)
	}
	return canonical.Value(dst, 'T', uint64(e.Properties.Timestamp.Unix()))
}

func canonicalHeaders(dst []byte, table amqp.Table, ignored []string) []byte {
	omit := changesOnTheWay
	if len(ignored) > 0 {
		omit = func(name string) bool { return changesOnTheWay(name) || slices.Contains(ignored, name) }
	}
	var room [tablejson.Room]tablejson.Field
	return canonical.Fields(dst, tablejson.Sorted(room[:], table, omit))
}

// changesOnTheWay reports whether a broker or Watership may add, change or remove a
// header.
func changesOnTheWay(name string) bool {
	return strings.HasPrefix(name, "x-") || header.IsWatership(name) ||
		name == header.CC || name == header.BCC || name == header.BrokerTime
}
