package schemas

import (
	amqp "github.com/rabbitmq/amqp091-go"
)

// Verifier decides which messages carry Watership's headers rightly, and signs those
// that do. Services copy headers from what they consume to what they publish, a
// publisher may write any, and the fingerprint is no secret. So a state counts only
// where the message came by an exchange that Watership alone publishes to, and, with
// Keys, is signed.
//
// Headers that do not count are taken off, and the message is new.
type Verifier struct {
	Topology Topology
	Keys     StateKeys

	// FormerRelease: a state also counts where the message came by the default
	// exchange, as a former release sent it.
	FormerRelease bool
}

// VerifiedState is a message with the state that is its own.
type VerifiedState struct {
	Envelope Envelope // its exchange and routing key are the origin; may share with what arrived
	State    State    // with the fingerprint always set

	// Mismatch says that the message carried a state for this queue that does not
	// count, since a publisher has copied or forged it; of one in a queue of ours, that
	// the fingerprint of its state is another's, since it changed there.
	Mismatch bool
}

// Verify reads a message that came to a queue by an exchange. Its state counts where
// the exchange is Watership's and the state names the queue, has the message's
// fingerprint, and is signed where there are keys. It fails only with a
// NewerVersionError, for a state of a newer version that came by such an exchange.
//
// The exchange and routing key of arrived are the origin of a message without a state.
func (v *Verifier) Verify(arrived Envelope, by, queue string) (VerifiedState, error) {
	headers := ours(arrived.Headers)
	if queue == "" || headers.text(headerQueue) != queue || headers.int(headerVersion) <= 0 {
		return v.VerifyMark(arrived), nil
	}
	if v.publishesTo(by) {
		e, state, err := unwrapHeaders(arrived)
		if err != nil {
			return VerifiedState{}, err
		}
		if v.Keys.signed(arrived, forQueue) && e.Fingerprint() == state.Fingerprint {
			return VerifiedState{Envelope: e, State: state}, nil
		}
	}
	fresh := v.VerifyMark(arrived)
	fresh.Mismatch = true
	return fresh, nil
}

// publishesTo says whether Watership alone publishes to an exchange.
func (v *Verifier) publishesTo(exchange string) bool {
	switch exchange {
	case v.Topology.Direct(), v.Topology.Return():
		return true
	}
	return exchange == "" && v.FormerRelease
}

// VerifyDue reads a message that should have waited in a delay queue: the broker wrote
// its newest death. The state is its own where found is true; else the message is new.
func (v *Verifier) VerifyDue(arrived Envelope) (verified VerifiedState, found bool, err error) {
	waited := false
	if deaths := deathsOf(arrived.Headers); len(deaths) > 0 {
		newest := deaths[0]
		waited = arrived.Exchange == newest.Exchange && v.publishesTo(newest.Exchange) &&
			(v.Topology.IsDelay(newest.Queue) || v.FormerRelease && v.Topology.IsFormerDelay(newest.Queue))
	}
	verified, found, err = v.verifyHop(arrived, waited, forDelay)
	if found && verified.State.Queue == "" {
		return v.VerifyMark(arrived), false, nil
	}
	return verified, found, err
}

// VerifyPoison reads a message from the queue of those that were given up.
func (v *Verifier) VerifyPoison(arrived Envelope) (verified VerifiedState, found bool, err error) {
	return v.verifyHop(arrived, v.publishesTo(arrived.Exchange), forPoison)
}

// verifyHop reads a message in one of our own queues.
func (v *Verifier) verifyHop(arrived Envelope, sent bool, u use) (verified VerifiedState, found bool, err error) {
	if !sent || !v.Keys.signed(arrived, u) {
		return v.VerifyMark(arrived), false, nil
	}
	e, state, err := Unwrap(arrived)
	if err != nil {
		return VerifiedState{}, false, err
	}
	if state.Version == 0 {
		return v.VerifyMark(arrived), false, nil
	}
	_, omitted := BodyOmitted(arrived)
	return VerifiedState{e, state, !omitted && e.Fingerprint() != state.Fingerprint}, true, nil
}

// VerifyMark reads a message whose state cannot count. The mark of a replay does where
// it has the message's fingerprint, and is signed where there are keys: a replay to an
// exchange comes by the exchange of publishers. Whether there is such a replay is for
// the indexer to say.
func (v *Verifier) VerifyMark(arrived Envelope) VerifiedState {
	if !carriesOurs(arrived.Headers) {
		return VerifiedState{Envelope: arrived, State: State{Fingerprint: arrived.Fingerprint()}}
	}
	state := readState(ours(arrived.Headers))
	if state.isMark() && v.Keys.signed(arrived, forReplay) {
		again := sentAgain(arrived)
		if again.State.Fingerprint == state.Fingerprint {
			again.State.Replay, again.State.ReplayOf = state.Replay, state.ReplayOf
			return again
		}
	}
	return newMessage(arrived)
}

// sentAgain is a message that a replay sent, with the times of the first publish.
func sentAgain(arrived Envelope) VerifiedState {
	times := ours(arrived.Headers)
	arrived.Headers = without(arrived.Headers, ownedByUs, 0)
	times.restoreTimes(&arrived)
	return VerifiedState{Envelope: arrived, State: State{Fingerprint: arrived.Fingerprint()}}
}

func newMessage(arrived Envelope) VerifiedState {
	arrived.Headers = without(arrived.Headers, ownedByUs, 0)
	return VerifiedState{Envelope: arrived, State: State{Fingerprint: arrived.Fingerprint()}}
}

// isMark says whether the state names a job and an event that it sent again, as it may
// name them: they become part of ids and are printed.
func (s State) isMark() bool {
	return s.Version > 0 && s.Version <= WireVersion &&
		isName(s.Replay, longestJob) && (s.ReplayOf == "" || isName(s.ReplayOf, longestID))
}

// isName: 1 to limit bytes of printable ASCII.
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

func carriesOurs(headers amqp.Table) bool {
	for name := range headers {
		if ownedByUs(name) {
			return true
		}
	}
	return false
}
