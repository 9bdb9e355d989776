package simulation

import (
	"math/rand/v2"
	"time"
)

// The kinds of faults of the broker, and of its users.
const (
	BrokerRestarts Kind = "a restart of the broker"
	QueueIsDeleted Kind = "a deletion of a queue"
	PoliciesChange Kind = "a change of policies"
	QueuesRefuse   Kind = "queues that are full"
	ResourceAlarm  Kind = "an alarm that blocks publishers"
)

func brokerKinds() []Kind { return append(usersKinds(), BrokerRestarts) }

func usersKinds() []Kind { return []Kind{QueueIsDeleted, PoliciesChange, QueuesRefuse, ResourceAlarm} }

// addBrokerFaults adds restarts of the broker to a third of the plans, and faults of its users to some.
func (p *Plan) addBrokerFaults(seed uint64) {
	if random := randomness(seed, "broker"); random.IntN(3) == 0 {
		p.addFaultsOf(random, []Kind{BrokerRestarts})
	}
	if random := randomness(seed, "users"); random.IntN(4) == 0 {
		p.addFaultsOf(random, usersKinds())
	}
}

func (p *Plan) addFaultsOf(random *rand.Rand, kinds []Kind) {
	at := 5 * time.Second
	for range 1 + random.IntN(3) {
		at += time.Duration(random.IntN(80_000)) * time.Millisecond
		p.Faults = append(p.Faults, Fault{
			At: at, For: time.Duration(500+random.IntN(20_000)) * time.Millisecond, Kind: kinds[random.IntN(len(kinds))], Choice: random.IntN(64),
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
	case QueueIsDeleted:
		users{w}.deleteQueue(f.Choice)
	case PoliciesChange:
		users{w}.changePolicies(f.Choice)
	case QueuesRefuse:
		users{w}.fillQueues(f)
	case ResourceAlarm:
		w.broker.SetMemoryAlarm(true)
		defer w.broker.SetMemoryAlarm(false)
		time.Sleep(f.For)
	}
}
