package simulation

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// ClockSteps is a fault of the clock of one process of serve: it is set, for a time or for good.
const ClockSteps Kind = "another time of the clock"

// clock is the wall clock of a machine. Times that its processes compare with each other are right although it is set: as in
// every Go program they are also measured by a clock that only goes forward. In Go's own runtime
// all machines have the right time.
type clock struct {
	ahead *int64 // nanoseconds, negative if it is behind; the runtime reads it
}

func newClock(ahead time.Duration) clock {
	nanoseconds := int64(ahead)
	return clock{&nanoseconds}
}

func (c clock) step(d time.Duration) { atomic.AddInt64(c.ahead, int64(d)) }

// run runs f and all goroutines that it starts by the clock.
func (c clock) run(f func()) {
	defer useClock(useClock(c.ahead))
	f()
}

// runRight runs f and all goroutines that it starts by the right time.
func runRight(f func()) { clock{}.run(f) }

// addClocks adds wrong clocks to a third of the plans.
func (p *Plan) addClocks(random *rand.Rand) {
	if random.IntN(3) > 0 {
		return
	}
	for range p.Processes + 1 {
		p.Clocks = append(p.Clocks, differences()[random.IntN(len(differences()))]*time.Duration(random.IntN(3)-1))
	}
	at := 5 * time.Second
	for range random.IntN(4) {
		at += time.Duration(random.IntN(80_000)) * time.Millisecond
		p.Faults = append(p.Faults, Fault{
			At: at, For: time.Duration(500+random.IntN(40_000)) * time.Millisecond, Kind: ClockSteps,
			Target: random.IntN(p.Processes), Choice: random.IntN(64),
		})
	}
}

// differences returns how far clocks are from the right time.
func differences() []time.Duration {
	return []time.Duration{30 * time.Millisecond, 700 * time.Millisecond, 8 * time.Second, 2 * time.Minute}
}

// clockOf returns the clock of a process of serve; the operator's follows them.
func (p Plan) clockOf(process int) clock {
	if process >= len(p.Clocks) {
		return newClock(0)
	}
	return newClock(p.Clocks[process])
}

// mostApart returns more than the difference of any two clocks of the plan at any time.
func (p Plan) mostApart() (most time.Duration) {
	for _, ahead := range p.Clocks {
		most += ahead.Abs()
	}
	for _, f := range p.Faults {
		if f.Kind == ClockSteps {
			most += f.clockStep().Abs()
		}
	}
	return most
}

// clockStep returns by how much a fault sets a clock.
func (f Fault) clockStep() time.Duration {
	step := differences()[f.Choice/4%len(differences())]
	if f.Choice%2 == 0 {
		return -step
	}
	return step
}

// setClock sets the clock of a process, and sets it back after a time unless it stays wrong.
func (w *world) setClock(p *process, f Fault) {
	w.note(p.name, fmt.Sprintf("its clock is set by %s", f.clockStep()))
	p.clock.step(f.clockStep())
	if f.Choice/2%2 == 0 {
		return
	}
	time.Sleep(f.For)
	p.clock.step(-f.clockStep())
	w.note(p.name, "its clock is set back")
}
