package simulation

import (
	"math/rand/v2"
	"time"
)

// The kinds of faults of the store that a third of the plans have.
const (
	StoreIsOverloaded Kind = "a store that answers 429"
	StoreIsBusy       Kind = "a store that accepts some documents"
	StoreBlocksWrites Kind = "a store that blocks writes"
	StoreWritesLater  Kind = "a store that carries out writes after its answer"
)

// storeFaults returns the faults of the store for each kind.
func storeFaults() map[Kind]storeFault {
	return map[Kind]storeFault{
		StoreRefuses: refusesRequests, StoreLoses: losesAnswers, StoreIsLate: answersLate, StoreIsOverloaded: isOverloaded,
		StoreIsBusy: isBusy, StoreBlocksWrites: blocksWrites, StoreWritesLater: carriesOutLater,
	}
}

// addStoreFaults adds faults of the store to a third of the plans: each is of one process, or of all.
func (p *Plan) addStoreFaults(random *rand.Rand) {
	if random.IntN(3) > 0 {
		return
	}
	kinds := []Kind{StoreIsOverloaded, StoreIsBusy, StoreBlocksWrites, StoreWritesLater, StoreWritesLater}
	at := 5 * time.Second
	for range 1 + random.IntN(3) {
		at += time.Duration(random.IntN(80_000)) * time.Millisecond
		f := Fault{At: at, For: time.Duration(500+random.IntN(20_000)) * time.Millisecond, Kind: kinds[random.IntN(len(kinds))]}
		only, all := random.IntN(p.Processes), random.IntN(2) == 0
		for f.Target = range p.Processes {
			if all || f.Target == only {
				p.Faults = append(p.Faults, f)
			}
		}
	}
}
