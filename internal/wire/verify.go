package wire

import (
	"maps"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/wire/fold"
	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/schemas"
)

// Verifier decides which messages have valid headers of Watership, and signs
// messages. Services copy headers from messages that they consume to messages that
// they publish, a publisher may write any header, and the fingerprint is no secret.
// So a state counts only if the message came by an exchange to which Watership
// alone publishes and, with Keys, has a valid signature.
//
// Headers that do not count are removed, and the message is new.
type Verifier struct {
	Topology schemas.Topology
	Keys     schemas.StateKeys

	Fingerprints schemas.Fingerprints

	// FormerRelease accepts a state also if the message came by the default
	// exchange, as a former release published it.
	FormerRelease bool

	// ForgeableDeaths is whether the broker keeps an x-death of a publisher, as
	// RabbitMQ before 4.0 does. The user_id of a state that counts by a death is removed
	// then, unless a signature covers it.
	ForgeableDeaths bool
}

// VerifiedState is a message with its verified state.
type VerifiedState struct {
	Envelope schemas.Envelope // its exchange and routing key are the origin; may share memory with the message that arrived
	State    schemas.State    // always with the fingerprint

	// Mismatch reports that the message had a state for this queue that does not
	// count, since a publisher copied or forged it. For a message in one of
	// Watership's queues it reports that its content changed there, so that the
	// fingerprint differs.
	Mismatch bool
}

// Verify verifies a message that came to a queue by an exchange. Its state counts
// if the exchange is Watership's and the state names the queue, has the message's
// fingerprint, and, with keys, has a valid signature. The only error is a
// NewerVersionError, for a state with a newer version that came by such an
// exchange.
//
// The exchange and routing key of arrived are the origin of a message without a
// state.
func (v *Verifier) Verify(arrived schemas.Envelope, exchange, queue string) (VerifiedState, error) {
	headers := header.Table(arrived.Headers)
	if queue == "" || headers.Text(headerQueue) != queue || headers.Int(headerVersion) <= 0 {
		return v.newAtQueue(arrived), nil
	}
	if v.trustsExchange(exchange) {
		e, state, err := unwrapHeaders(arrived)
		if err != nil {
			return VerifiedState{}, err
		}
		if isWritten(headers) && accepts(v.Keys, arrived, forQueue) && v.Fingerprints.Matches(e, state.Fingerprint) {
			return VerifiedState{Envelope: e, State: state}, nil
		}
	}
	fresh := v.newAtQueue(arrived)
	fresh.Mismatch = true
	return fresh, nil
}

// VerifyDead is Verify for a dead letter, by its newest death.
func (v *Verifier) VerifyDead(letter schemas.Envelope, death header.Death) (VerifiedState, error) {
	verified, err := v.Verify(letter, death.Exchange, death.Queue)
	if verified.State.Queue != "" {
		v.removeUser(letter, &verified)
	}
	return verified, err
}

// removeUser removes the user_id of a state that counts by a death, if that proves nothing.
func (v *Verifier) removeUser(arrived schemas.Envelope, verified *VerifiedState) {
	_, signed := arrived.Headers[headerSignature]
	if v.ForgeableDeaths && !(signed && v.Keys.Signs()) {
		verified.Envelope.Properties.UserID = ""
	}
}

// isWritten reports whether Watership can have written a state: it counts attempts from 0.
func isWritten(headers header.Table) bool { return headers.Int(headerAttempt) >= 0 }

// VerifyReport verifies a message that the consumer of a queue published to the exchange
// for reports, with the exchange and routing key by which the consumer says that it got
// the message. The consumer may write any values:
//
//   - A state counts as it does for Verify, by the exchange that the consumer says. A
//     login that may report on a queue could as well report without a state.
//   - An origin is a claim, and CC and user_id are removed, unless a signature covers them.
//     The default exchange with the name of the queue is no claim: it leads there.
func (v *Verifier) VerifyReport(reported schemas.Envelope, queue string) (VerifiedState, error) {
	exchange := reported.Exchange
	if v.Topology.Owns(exchange) { // the state has the origin, if the state counts
		reported.Exchange, reported.RoutingKey = "", queue
	}
	headers := maps.Clone(reported.Headers)
	for name, value := range headers {
		if header.IsWatership(name) { // as Watership wrote and signed it
			headers[name] = fold.Value(value)
		}
	}
	reported.Headers = headers
	verified, err := v.Verify(reported, exchange, queue)
	if err != nil {
		return VerifiedState{}, err
	}
	_, signed := reported.Headers[headerSignature]
	counts := verified.State.Queue != ""
	if counts && signed && v.Keys.Signs() {
		return verified, nil
	}
	e := &verified.Envelope
	e.Headers = header.Without(e.Headers, func(name string) bool { return name == header.CC || name == header.BCC }, roomForState)
	e.Properties.UserID = ""
	verified.State.OriginClaimed = e.Exchange != "" || e.RoutingKey != queue
	return verified, nil
}

// newAtQueue verifies a message without a state in the queue of a route. Its hops remove
// x-death, so that a dead letter has its origin from here on.
func (v *Verifier) newAtQueue(arrived schemas.Envelope) VerifiedState {
	fresh := v.VerifyMark(arrived)
	fresh.Envelope = v.Fingerprints.Origin(fresh.Envelope)
	return fresh
}

// trustsExchange reports whether Watership alone publishes to an exchange.
func (v *Verifier) trustsExchange(exchange string) bool {
	switch exchange {
	case v.Topology.Direct(), v.Topology.Return():
		return true
	}
	return exchange == "" && v.FormerRelease
}

// VerifyDue verifies a message that should have waited in a delay queue, by its
// only death, which the broker wrote: Watership publishes none. found reports whether the
// state counts; otherwise the message is new. A state for a queue of Watership never counts.
func (v *Verifier) VerifyDue(arrived schemas.Envelope) (verified VerifiedState, found bool, err error) {
	waited := false
	if deaths := header.Deaths(arrived.Headers); len(deaths) == 1 && deaths[0].Count == 1 {
		only := deaths[0]
		waited = arrived.Exchange == only.Exchange && v.trustsExchange(only.Exchange) &&
			(DelaysOf(v.Topology).Has(only.Queue) || v.FormerRelease && DelaysOf(v.Topology).HasFormer(only.Queue))
	}
	verified, found, err = v.verifyHop(arrived, waited, forDelay)
	if !found || err != nil {
		return verified, found, err
	}
	if queue := verified.State.Queue; queue == "" || v.Topology.Owns(queue) {
		return v.VerifyMark(arrived), false, nil
	}
	v.removeUser(arrived, &verified)
	return verified, true, nil
}

// VerifyWaiting verifies a message from a delay queue, whose delay is not over.
func (v *Verifier) VerifyWaiting(arrived schemas.Envelope) (verified VerifiedState, found bool, err error) {
	return v.verifyHop(arrived, v.trustsExchange(arrived.Exchange), forDelay)
}

// VerifyPoison verifies a message from the queue of poison messages.
func (v *Verifier) VerifyPoison(arrived schemas.Envelope) (verified VerifiedState, found bool, err error) {
	return v.verifyHop(arrived, v.trustsExchange(arrived.Exchange), forPoison)
}

// verifyHop verifies a message in one of Watership's queues. trusted reports whether
// Watership alone can have published it there.
func (v *Verifier) verifyHop(arrived schemas.Envelope, trusted bool, u use) (verified VerifiedState, found bool, err error) {
	if !trusted || !isWritten(header.Table(arrived.Headers)) || !accepts(v.Keys, arrived, u) {
		return v.VerifyMark(arrived), false, nil
	}
	e, state, err := Unwrap(arrived)
	if err != nil {
		return VerifiedState{}, false, err
	}
	if state.Version == 0 {
		return v.VerifyMark(arrived), false, nil
	}
	_, omitted := OmittedBodyOf(arrived)
	return VerifiedState{e, state, !omitted && !v.Fingerprints.Matches(e, state.Fingerprint)}, true, nil
}

// VerifyMark verifies a message whose state cannot count, except for the mark of a
// replay. The mark counts if it has the message's fingerprint and, with keys, a
// valid signature: a replay to an exchange comes by the same exchange as
// publishers' messages. The indexer checks whether the replay exists.
func (v *Verifier) VerifyMark(arrived schemas.Envelope) VerifiedState {
	if !hasWatershipHeaders(arrived.Headers) {
		return VerifiedState{Envelope: arrived, State: schemas.State{Fingerprint: v.Fingerprints.Of(arrived)}}
	}
	state := readState(header.Table(arrived.Headers))
	if isMark(state) && accepts(v.Keys, arrived, forReplay) {
		replayed := v.replayedMessage(arrived)
		if v.Fingerprints.Matches(replayed.Envelope, state.Fingerprint) {
			replayed.State.Fingerprint, replayed.State.Replay, replayed.State.ReplayOf, replayed.State.Trace = state.Fingerprint, state.Replay, state.ReplayOf, state.Trace
			return replayed
		}
	}
	return v.newMessage(arrived)
}

// replayedMessage returns a message that a replay published, with the times of the first
// publish.
func (v *Verifier) replayedMessage(arrived schemas.Envelope) VerifiedState {
	times := header.Table(arrived.Headers)
	arrived.Headers = header.Without(arrived.Headers, header.IsWatership, 0)
	restoreTimes(times, &arrived)
	return VerifiedState{Envelope: arrived, State: schemas.State{Fingerprint: v.Fingerprints.Of(arrived)}}
}

func (v *Verifier) newMessage(arrived schemas.Envelope) VerifiedState {
	arrived.Headers = header.Without(arrived.Headers, header.IsWatership, 0)
	return VerifiedState{Envelope: arrived, State: schemas.State{Fingerprint: v.Fingerprints.Of(arrived)}}
}

// isMark reports whether the state names a replay job and an event in valid form:
// both become part of ids and are printed.
func isMark(s schemas.State) bool {
	return s.Version > 0 && s.Version <= header.Version &&
		isName(s.Replay, longestJob) && (s.ReplayOf == "" || isName(s.ReplayOf, longestID))
}

// isName reports whether text is 1 to limit bytes of printable ASCII.
func isName(text string, limit int) bool {
	if text == "" || len(text) > limit {
		return false
	}
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

const longestJob = 128 // bytes

func hasWatershipHeaders(headers amqp.Table) bool {
	for name := range headers {
		if header.IsWatership(name) {
			return true
		}
	}
	return false
}
