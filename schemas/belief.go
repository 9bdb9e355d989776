package schemas

// Belief is what a message that arrived at a queue is taken for.
type Belief struct {
	Envelope Envelope // its exchange and routing key are the origin
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
// with a NewerVersionError.
//
// The exchange and routing key of arrived are those of the delivery or, for a
// dead letter, those with which it came to the queue where it died.
func Believe(arrived Envelope, queue string) (Belief, error) {
	wrapped, state, err := Unwrap(arrived)
	if err != nil {
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
	fresh := newMessage(arrived)
	if state.Fingerprint == fresh.State.Fingerprint {
		fresh.State.Replay, fresh.State.ReplayOf = state.Replay, state.ReplayOf
		fresh.Envelope.Properties.UserID = wrapped.Properties.UserID
	}
	return fresh, nil
}

func newMessage(arrived Envelope) Belief {
	arrived.Headers = withoutOurs(arrived.Headers)
	return Belief{Envelope: arrived, State: State{Fingerprint: arrived.Fingerprint()}}
}
