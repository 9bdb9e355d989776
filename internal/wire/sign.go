package wire

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"hash"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/wire/canonical"
	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/schemas/tablejson"
)

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
func forEvent(action schemas.Action) use { return use("event " + action) }

// useOf returns the use of a message that is published to an exchange with a
// routing key.
func (v *Verifier) useOf(exchange, key string) use {
	t := v.Topology
	switch {
	case exchange == t.Events():
		return forEvent(schemas.Action(key))
	case exchange == t.Direct() && key == t.Poison():
		return forPoison
	case exchange == t.Direct() && DelaysOf(t).Has(key):
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
	if v.Keys.Signs() && header.Table(p.Headers).Int(headerVersion) > 0 {
		for mac := range v.Keys.MACs() {
			sum := signature(mac, p.Headers, p.Body, v.useOf(exchange, key))
			p.Headers[headerSignature] = base64.RawStdEncoding.EncodeToString(sum)
			break
		}
	}
	return p
}

// accepts reports whether the headers of a message have a valid signature for a use,
// or need none.
func accepts(k schemas.StateKeys, arrived schemas.Envelope, u use) bool {
	text, present := arrived.Headers[headerSignature]
	if !present {
		return k.Unsigned()
	}
	if !k.Signs() {
		return true
	}
	encoded, _ := text.(string)
	given, err := base64.RawStdEncoding.DecodeString(encoded)
	for mac := range k.MACs() {
		if err == nil && hmac.Equal(given, signature(mac, arrived.Headers, arrived.Body, u)) {
			return true
		}
	}
	return false
}

// signature covers the use and every header of Watership, with the fingerprint,
// which represents the message. If the body holds more than the message's body, the
// signature covers it as well.
func signature(mac hash.Hash, headers amqp.Table, body []byte, u use) []byte {
	var room [tablejson.Room]tablejson.Field
	fields := tablejson.Sorted(room[:], headers, func(name string) bool {
		return !header.IsWatership(name) || name == headerSignature
	})
	text := canonical.Text(canonical.Text(make([]byte, 0, 2048), "watership state 1"), string(u))
	mac.Write(canonical.Fields(text, fields))
	if headers[headerWrapped] != nil || headers[headerBundled] != nil {
		sum := sha256.Sum256(body)
		mac.Write(sum[:])
	}
	return mac.Sum(nil)
}
