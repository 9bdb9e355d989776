package simulation

import (
	"math/rand/v2"
	"time"
)

// Flapping is a fault of one connection of a process of serve, which is lost each time that it is open again.
const Flapping Kind = "a connection that is lost again and again"

// addFlapping adds such connections to a third of the plans.
func (p *Plan) addFlapping(random *rand.Rand) {
	if random.IntN(3) > 0 {
		return
	}
	at := 5 * time.Second
	for range 1 + random.IntN(3) {
		at += time.Duration(random.IntN(80_000)) * time.Millisecond
		p.Faults = append(p.Faults, Fault{
			At: at, For: time.Duration(5000+random.IntN(20_000)) * time.Millisecond, Kind: Flapping,
			Target: random.IntN(p.Processes), Choice: random.IntN(64),
		})
	}
}

// flap cuts the connections of one name that a process opens in a time.
func (w *world) flap(p *process, f Fault) {
	name := ""
	for began := time.Now(); time.Since(began) < f.For; time.Sleep(time.Duration(500+f.Choice*30) * time.Millisecond) {
		l := p.current()
		if l == nil {
			continue
		}
		var named []*stream
		for _, s := range w.network.of(l.name) {
			if s.nameOf(nil) != "" {
				named = append(named, s)
			}
		}
		if name == "" && len(named) > 0 {
			name = named[f.Choice%len(named)].nameOf(nil)
		}
		for _, s := range named {
			if s.nameOf(nil) == name {
				s.cut()
			}
		}
	}
}
