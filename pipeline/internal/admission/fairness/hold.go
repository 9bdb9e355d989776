package fairness

import (
	"slices"
	"time"
)

// askedFor is how long it is known whether an operator holds a key that has no messages: the answer is asked again with the
// next one.
const askedFor = 5 * time.Second

// SetHolding says whether an operator may hold keys of the route. If so, messages of a key wait until SetHeld. They wait also
// before the first call if the Gate can have it asked.
func (g *Gate) SetHolding(holding bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holding = holding
	if !holding {
		for _, k := range g.keys {
			k.asked, k.held = time.Time{}, false
			k.advance()
		}
		g.grant()
	}
}

// Unknown returns the keys with messages of which it is not known whether they are held; with all, all keys with messages.
// It returns nothing if no key can be held.
func (g *Gate) Unknown(all bool) (keys []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.holding {
		return nil
	}
	for name, k := range g.keys {
		if len(k.tickets) > 0 && (all || k.asked.IsZero()) {
			keys = append(keys, name)
		}
	}
	return keys
}

// SetHeld says whether an operator holds a key.
func (g *Gate) SetHeld(name string, held bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	k, known := g.keys[name]
	if !known {
		return
	}
	k.asked = g.now()
	if held && !k.held {
		k.heldAt = k.asked
	}
	k.held = held
	for _, t := range slices.Clone(k.tickets) {
		if held && t.stage == ready {
			t.refuse(outcome{wait: k.wait(t)})
		}
	}
	k.advance()
	g.grant()
}

// askAbout has it asked whether a key is held, with its first message after a while.
func (g *Gate) askAbout(k *key) {
	if !g.holding || len(k.tickets) > 0 && !k.asked.IsZero() {
		return
	}
	if g.now().Sub(k.asked) > askedFor {
		k.asked = time.Time{}
		if g.cfg.Unknown != nil {
			g.cfg.Unknown()
		}
	}
}
