package simulation

// placesLost is the warning of an ordered route when the broker refuses the places of messages that it
// requeues.
const placesLost = "the places of requeued messages are not kept; they may be handled out of order"

// losePlaces says that a process has warned of the messages without an outcome, which later ones may overtake.
func losePlaces(o *oracle) {
	o.mu.Lock()
	defer o.mu.Unlock()
	displace(o)
}

// displace lets later messages overtake those without an outcome, whose places the broker has lost or refused. o.mu is held.
func displace(o *oracle) {
	for _, id := range o.sent {
		if o.messages[id].queue == orderedQueue && o.finished[id].IsZero() {
			o.displaced[id] = true
		}
	}
}
