package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/watershipmq/watership/broker"
)

// Fault is a fault that a run meets.
type Fault struct {
	At     time.Duration // after the first message
	For    time.Duration
	Kind   Kind
	Target int // number of the process
	Choice int // among its connections
}

// String describes the fault.
func (f Fault) String() string {
	if f.ofOperator() || f.ofProjector() {
		return fmt.Sprintf("%s %s for %s", f.At, f.Kind, f.For)
	}
	who := "serve"
	if f.Kind == KillConsumer || f.Kind == CutConsumer {
		who = "consumer"
	}
	if slices.Contains(brokerKinds(), f.Kind) {
		return fmt.Sprintf("%s %s for %s (choice %d)", f.At, f.Kind, f.For, f.Choice)
	}
	return fmt.Sprintf("%s %s of %s%d for %s (choice %d)", f.At, f.Kind, who, f.Target, f.For, f.Choice)
}

func (f Fault) ofOperator() bool {
	return f.Kind == KillOperator || f.Kind == OperatorStoreRefuses || f.Kind == OperatorStoreLoses
}

func (f Fault) ofProjector() bool {
	return f.Kind == KillProjector || f.Kind == ProjectorStoreRefuses || f.Kind == ProjectorStoreLoses
}

// Kind is the kind of a fault.
type Kind string

// The kinds of faults.
const (
	Kill            Kind = "SIGKILL"
	Stop            Kind = "SIGTERM"
	Pause           Kind = "SIGSTOP"
	Cut             Kind = "a lost connection"
	CutAll          Kind = "the loss of all connections"
	Stall           Kind = "a direction that stalls"
	Slow            Kind = "slow connections"
	StoreRefuses    Kind = "a store that refuses"
	StoreLoses      Kind = "a store that loses answers"
	StoreIsLate     Kind = "a store that is late"
	BrokerCloses    Kind = "a broker that closes all connections"
	BrokerNacks     Kind = "a broker that refuses messages"
	ConfirmsAreLate Kind = "late confirms"

	KillConsumer Kind = "the end"
	CutConsumer  Kind = "the lost connection"

	KillOperator         Kind = "SIGKILL of the operator"
	OperatorStoreRefuses Kind = "a store that refuses the operator"
	OperatorStoreLoses   Kind = "a store that loses answers to the operator"

	KillProjector         Kind = "SIGKILL of a projector"
	ProjectorStoreRefuses Kind = "a store that refuses a projector"
	ProjectorStoreLoses   Kind = "a store that loses answers to a projector"
)

func kinds() []Kind {
	return []Kind{Kill, Stop, Pause, Cut, CutAll, Stall, Slow, StoreRefuses, StoreLoses, StoreIsLate, BrokerCloses, BrokerNacks, ConfirmsAreLate}
}

// NewPlan draws a plan from a seed.
func NewPlan(seed uint64) Plan {
	random := randomness(seed, "plan")
	plan := Plan{Seed: seed, Processes: 1 + random.IntN(3)}
	at := 5 * time.Second
	for range max(0, random.IntN(10)-2) { // often none, since much must hold only without faults
		at += time.Duration(random.IntN(40_000)) * time.Millisecond
		plan.Faults = append(plan.Faults, newFault(random, at, plan.Processes))
	}
	plan.Profile, plan.Actions, plan.Outages = newProfile(seed), newActions(seed), newOutages(seed)
	for _, a := range plan.Actions {
		if len(plan.Faults) > 0 && a.Kind == Replay && a.Number%3 == 0 { // while some messages are refused
			plan.Faults = append(plan.Faults, Fault{At: a.At, For: 10 * time.Second, Kind: BrokerNacks, Choice: 1})
		}
	}
	plan.addConsumers(randomness(seed, "consumers"))
	plan.addBrokerFaults(seed)
	plan.addStoreFaults(randomness(seed, "store"))
	plan.addReceivers(randomness(seed, "receivers"))
	plan.addDecisions(randomness(seed, "decisions"))
	plan.addFaultsOfOperator(randomness(seed, "operator"))
	plan.addProjectors(randomness(seed, "projectors"))
	plan.addClocks(randomness(seed, "clocks"))
	plan.addFlapping(randomness(seed, "flapping"))
	return plan
}

// addConsumers adds consumers of another program, with their faults and the actions of the operator on
// their queue, to half of the plans.
func (p *Plan) addConsumers(random *rand.Rand) {
	if p.Consumers = max(0, random.IntN(4)-1); p.Consumers == 0 {
		return
	}
	at := 5 * time.Second
	for range random.IntN(4) {
		at += time.Duration(random.IntN(60_000)) * time.Millisecond
		p.Faults = append(p.Faults, Fault{At: at, Kind: []Kind{KillConsumer, CutConsumer}[random.IntN(2)], Target: random.IntN(p.Consumers), Choice: random.IntN(16)})
	}
	at = 20 * time.Second
	for range random.IntN(3) {
		at += time.Duration(random.IntN(90_000)) * time.Millisecond
		p.Actions = append(p.Actions, Action{At: at, Kind: []ActionKind{Hasten, Replay, Replay}[random.IntN(3)], Queue: foreignQueue, Number: 1 + random.IntN(20)})
	}
}

// addReceivers adds subscriptions, and the actions of the operator on them, to half of the plans.
func (p *Plan) addReceivers(random *rand.Rand) {
	if p.Receivers = random.IntN(2) == 0; !p.Receivers {
		return
	}
	at := 20 * time.Second
	for range random.IntN(3) {
		at += time.Duration(random.IntN(90_000)) * time.Millisecond
		p.Actions = append(p.Actions, Action{
			At: at, For: time.Duration(1000+random.IntN(30_000)) * time.Millisecond, Kind: PauseSubscription, Queue: []string{slowQueue, refusingTarget}[random.IntN(2)],
		})
	}
}

// addDecisions adds decisions of the operator about messages that wait.
func (p *Plan) addDecisions(random *rand.Rand) {
	queues := []string{plainQueue, orderedQueue, foreignQueue}
	if p.Consumers == 0 {
		queues = queues[:2]
	}
	at := 15 * time.Second
	for range random.IntN(5) {
		at += time.Duration(random.IntN(50_000)) * time.Millisecond
		p.Actions = append(p.Actions, Action{
			At: at, For: time.Duration(random.IntN(30_000)) * time.Millisecond, Kind: []ActionKind{Postpone, Cancel}[random.IntN(2)], Queue: queues[random.IntN(len(queues))],
		})
	}
}

// addFaultsOfOperator adds faults of the operator's process to half of the plans with actions.
func (p *Plan) addFaultsOfOperator(random *rand.Rand) {
	if len(p.Actions) == 0 || random.IntN(2) == 0 {
		return
	}
	for range 1 + random.IntN(2) { // in the middle of an action
		near := p.Actions[random.IntN(len(p.Actions))].At
		p.Faults = append(p.Faults, Fault{
			At: near + time.Duration(random.IntN(8000))*time.Millisecond, For: time.Duration(500+random.IntN(10_000)) * time.Millisecond,
			Kind: []Kind{KillOperator, KillOperator, OperatorStoreRefuses, OperatorStoreLoses}[random.IntN(4)],
		})
	}
}

// addProjectors adds processes with a projection, and their faults, to a third of the plans.
func (p *Plan) addProjectors(random *rand.Rand) {
	if p.Projectors = max(0, random.IntN(6)-3); p.Projectors == 0 {
		return
	}
	at := 5 * time.Second
	for range random.IntN(4) {
		at += time.Duration(random.IntN(60_000)) * time.Millisecond
		p.Faults = append(p.Faults, Fault{
			At: at, For: time.Duration(500+random.IntN(10_000)) * time.Millisecond, Target: random.IntN(p.Projectors),
			Kind: []Kind{KillProjector, KillProjector, ProjectorStoreRefuses, ProjectorStoreLoses}[random.IntN(4)],
		})
	}
}

func newFault(random *rand.Rand, at time.Duration, processes int) Fault {
	all := kinds()
	return Fault{
		At: at, For: time.Duration(500+random.IntN(20_000)) * time.Millisecond, Kind: all[random.IntN(len(all))],
		Target: random.IntN(processes), Choice: random.IntN(64),
	}
}

// inflict lets the world meet a fault, and returns at its end.
func (w *world) inflict(ctx context.Context, operator *operator, f Fault) {
	w.note("fault", f.String())
	if f.Kind == KillConsumer || f.Kind == CutConsumer {
		w.consumers[f.Target].meet(f)
		return
	}
	if f.ofOperator() {
		operator.meet(ctx, f)
		return
	}
	if f.ofProjector() {
		w.projectors.all[f.Target].meet(f)
		return
	}
	if slices.Contains(brokerKinds(), f.Kind) {
		w.inflictBroker(f)
		return
	}
	p := w.processes[f.Target]
	if f.isShort() {
		p.awaitMoment(f.Choice)
	}
	switch f.Kind {
	case Kill:
		p.kill()
		time.Sleep(f.For)
		p.start()
	case Stop:
		p.stop()
		time.Sleep(f.For)
		p.start()
	case Pause:
		p.pause(f.For)
		time.Sleep(f.For)
	case Flapping:
		w.flap(p, f)
	case ClockSteps:
		w.setClock(p, f)
	case Cut, CutAll, Stall, Slow:
		w.disturb(p, f)
	case StoreRefuses, StoreLoses, StoreIsLate, StoreIsOverloaded, StoreIsBusy, StoreBlocksWrites, StoreWritesLater:
		l := p.current()
		if l == nil {
			break
		}
		l.link.meet(storeFaults()[f.Kind], f.For)
		time.Sleep(f.For / 2)
		checkUnready(l)
		time.Sleep(f.For / 2)
	case BrokerCloses:
		w.broker.CloseConnections("the simulation closes the connection")
	case BrokerNacks:
		w.injectFor(f.For, broker.Fault{Do: broker.Nack(), Match: func(r broker.Request) bool {
			return f.Choice%2 == 0 || drawn(w.seed, time.Now().UnixNano(), r.Exchange, r.RoutingKey, string(r.Body))%2 == 0
		}})
	case ConfirmsAreLate:
		w.injectFor(f.For, broker.Fault{Do: broker.DelayConfirm(7 * time.Second)})
	}
}

// isShort reports whether the moment of the fault matters.
func (f Fault) isShort() bool {
	return f.Kind == Kill || f.Kind == Stop || f.Kind == Cut || f.Kind == CutAll
}

func (w *world) injectFor(d time.Duration, f broker.Fault) {
	remove := w.broker.Inject(f)
	defer remove()
	time.Sleep(d)
}

// disturb disturbs connections of a process.
func (w *world) disturb(p *process, f Fault) {
	l := p.current()
	if l == nil {
		return
	}
	streams := w.network.of(l.name)
	if len(streams) == 0 {
		return
	}
	if f.Kind != CutAll && f.Kind != Slow {
		streams = streams[f.Choice/2%len(streams):][:1]
	}
	for _, s := range streams {
		switch f.Kind {
		case Cut, CutAll:
			s.cut()
		case Stall:
			direction := s.out
			if f.Choice%2 == 0 {
				direction = s.in
			}
			direction.stall(f.For)
		case Slow:
			s.out.slow(200)
			s.in.slow(200)
		}
	}
	if f.Kind == Slow {
		time.Sleep(f.For)
		for _, s := range streams {
			s.out.slow(1)
			s.in.slow(1)
		}
	}
}
