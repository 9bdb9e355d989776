package schemas

import (
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Belief is what a message that arrived at a queue is taken for.
type Belief struct {
	Envelope Envelope // its exchange and routing key are the origin; may share with what arrived
	State    State    // with the fingerprint always set

	// Mismatch says that the message named this queue and carried a
	// fingerprint that is not its own. That should never happen.
	Mismatch bool
}

// Believe decides whether the headers of ours that a message carries are its
// own. Services copy headers from what they consume to what they publish, so
// they count only where they name the queue where the message arrived and the
// fingerprint is the message's; a replay mark needs the fingerprint alone.
// Everything else of ours is taken off and the message is new. It fails only
// with a NewerVersionError, where headers of a newer version name the queue or no
// queue is known.
//
// The exchange and routing key of arrived are those of the delivery or, for a
// dead letter, those with which it came to the queue where it died.
func Believe(arrived Envelope, queue string) (Belief, error) {
	if !carriesOurs(arrived.Headers) {
		return Belief{Envelope: arrived, State: State{Fingerprint: arrived.Fingerprint()}}, nil
	}
	wrapped, state, err := unwrapHeaders(arrived)
	if err != nil {
		if queue != "" && ours(arrived.Headers).text(headerQueue) != queue {
			return newMessage(arrived), nil
		}
		return Belief{}, err
	}
	if state.Version > 0 && state.Queue == queue && queue != "" {
		if wrapped.Fingerprint() == state.Fingerprint {
			return Belief{Envelope: wrapped, State: state}, nil
		}
		fresh := newMessage(arrived)
		fresh.Mismatch = true
		return fresh, nil
	}
	again := sentAgain(arrived)
	if state.Fingerprint != again.State.Fingerprint || !checkMark(state) {
		return newMessage(arrived), nil
	}
	again.State.Replay, again.State.ReplayOf = state.Replay, state.ReplayOf
	again.Envelope.Properties.UserID = wrapped.Properties.UserID
	return again, nil
}

// sentAgain is a message that a replay sent, with the times of the first publish.
func sentAgain(arrived Envelope) Belief {
	times := ours(arrived.Headers)
	arrived.Headers = without(arrived.Headers, ownedByUs, 0)
	times.restoreTimes(&arrived)
	return Belief{Envelope: arrived, State: State{Fingerprint: arrived.Fingerprint()}}
}

func newMessage(arrived Envelope) Belief {
	arrived.Headers = without(arrived.Headers, ownedByUs, 0)
	return Belief{Envelope: arrived, State: State{Fingerprint: arrived.Fingerprint()}}
}

// checkMark refuses a replay mark that would make no id of an event.
func checkMark(s State) bool {
	return len(s.Replay) <= longestJob && utf8.ValidString(s.Replay) && len(s.ReplayOf) <= longestID
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
