package schemas

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas/internal/canonical"
	"github.com/watershipmq/watership/schemas/tablejson"
)

// StateKeys sign the state that travels with messages (HMAC-SHA-256, RFC 2104), for
// virtual hosts in which others may publish to Watership's exchanges or queues. The
// zero value neither signs nor verifies. ParseStateKeys returns StateKeys with
// keys.
type StateKeys struct {
	keys     [][]byte // the first signs, all verify
	unsigned bool     // accept a state without a signature as well
}

// use is the purpose of a signature. A signature for one purpose is invalid for any
// other, since services see the states of the messages that they consume.
type use string

// The uses of a state, in addition to forEvent.
const (
	forQueue    use = "queue"   // the last hop, to the queue named by the state
	forDelay    use = "delay"   // a delay queue
	forPoison   use = "poison"  // the queue of poison messages
	forReplay   use = "replay"  // the mark of a replay to an exchange
	forOwnQueue use = "keeping" // another queue of Watership, in which no state counts
)

// forEvent returns the use of a state in an event of an action.
func forEvent(action Action) use { return use("event " + action) }

// useOf returns the use of a message that is published to an exchange with a
// routing key.
func (v *Verifier) useOf(exchange, key string) use {
	t := v.Topology
	switch {
	case exchange == t.Events():
		return forEvent(Action(key))
	case exchange == t.Direct() && key == t.Poison():
		return forPoison
	case exchange == t.Direct() && t.Delays().Has(key):
		return forDelay
	case exchange == t.Direct() && t.Owns(key):
		return forOwnQueue
	case exchange == t.Direct(), exchange == t.Return():
		return forQueue
	}
	return forReplay
}

// Sign signs a message that Wrap or another function of this package made, for an
// exchange and a routing key. Without keys, or without a state, it changes nothing.
func (v *Verifier) Sign(exchange, key string, p amqp.Publishing) amqp.Publishing {
	if v.Keys.Signs() && typedTable(p.Headers).int(headerVersion) > 0 {
		sum := signature(v.Keys.keys[0], p.Headers, p.Body, v.useOf(exchange, key))
		p.Headers[headerSignature] = base64.RawStdEncoding.EncodeToString(sum)
	}
	return p
}

const (
	shortestKey = 32 // bytes, as many as SHA-256 gives

	// unsignedLine is a line in place of a key: states without a signature count as
	// well, until an operator removes the line.
	unsignedLine = "unsigned"
)

// ParseStateKeys parses keys, one per line, of at least 32 bytes each. The first
// key signs and all verify, so a key is replaced in three steps: add the new one as
// the second everywhere, make it the first, remove the old one. With a line
// "unsigned", states without a signature count too, until messages that were
// published without one have arrived.
func ParseStateKeys(text []byte) (StateKeys, error) {
	var k StateKeys
	if len(bytes.TrimSpace(text)) == 0 {
		return StateKeys{}, errors.New("there is no key")
	}
	for n, line := range bytes.Split(bytes.TrimRight(text, "\r\n"), []byte("\n")) {
		switch line = bytes.TrimSpace(line); {
		case string(line) == unsignedLine:
			k.unsigned = true
		case len(line) < shortestKey:
			return StateKeys{}, fmt.Errorf("line %d has %d bytes: expected a key of at least %d, such as of `openssl rand -hex %[3]d`",
				n+1, len(line), shortestKey)
		default:
			k.keys = append(k.keys, bytes.Clone(line))
		}
	}
	if len(k.keys) == 0 {
		return StateKeys{}, errors.New("there is no key")
	}
	return k, nil
}

// Signs reports whether there are keys; Unsigned whether states without a signature
// count as well.
func (k StateKeys) Signs() bool    { return len(k.keys) > 0 }
func (k StateKeys) Unsigned() bool { return !k.Signs() || k.unsigned }

// accepts reports whether the headers of a message have a valid signature for a use,
// or need none.
func (k StateKeys) accepts(arrived Envelope, u use) bool {
	text, present := arrived.Headers[headerSignature]
	if !present {
		return k.Unsigned()
	}
	if !k.Signs() {
		return true
	}
	encoded, _ := text.(string)
	given, err := base64.RawStdEncoding.DecodeString(encoded)
	return err == nil && slices.ContainsFunc(k.keys, func(key []byte) bool {
		return hmac.Equal(given, signature(key, arrived.Headers, arrived.Body, u))
	})
}

// signature covers the use and every header of Watership, with the fingerprint,
// which represents the message. If the body holds more than the message's body, the
// signature covers it as well.
func signature(key []byte, headers amqp.Table, body []byte, u use) []byte {
	mac := hmac.New(sha256.New, key)
	var room [tablejson.Room]tablejson.Field
	fields := tablejson.Sorted(room[:], headers, func(name string) bool {
		return !isWatershipHeader(name) || name == headerSignature
	})
	text := canonical.Text(canonical.Text(make([]byte, 0, 2048), "watership state 1"), string(u))
	mac.Write(canonical.Fields(text, fields))
	if headers[headerWrapped] != nil || headers[headerBundled] != nil {
		sum := sha256.Sum256(body)
		mac.Write(sum[:])
	}
	return mac.Sum(nil)
}
