package simulation

import (
	"math/rand/v2"
	"time"
)

// The kinds of faults of the broker that a third of the plans have.
const (
	BrokerRestarts Kind = "a restart of the broker"
)

func brokerKinds() []Kind { return []Kind{BrokerRestarts} }

// addBrokerFaults adds faults of the broker to a third of the plans.
func (p *Plan) addBrokerFaults(random *rand.Rand) {
	if random.IntN(3) > 0 {
		return
	}
	at := 5 * time.Second
	for range 1 + random.IntN(3) {
		at += time.Duration(random.IntN(80_000)) * time.Millisecond
		all := brokerKinds()
		p.Faults = append(p.Faults, Fault{
			At: at, For: time.Duration(500+random.IntN(20_000)) * time.Millisecond, Kind: all[random.IntN(len(all))], Choice: random.IntN(64),
		})
	}
}

// inflictBroker lets the broker meet a fault, and returns at its end.
func (w *world) inflictBroker(f Fault) {
	if f.Choice%2 == 1 {
		w.processes[f.Choice/2%len(w.processes)].awaitMoment(f.Choice)
	}
	switch f.Kind {
	case BrokerRestarts:
		w.broker.Restart(f.For)
	}
}
