package agent

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/watershipmq/watership/internal/operation/access"
)

// plan is an action as it was planned.
type plan struct {
	op        string // id of the operation
	arguments map[string]json.RawMessage
	caller    string
	made      time.Time
}

// Bounds of plans.
const (
	planAge  = 15 * time.Minute // after which a plan counts no more
	maxPlans = 1000
	maxOwn   = 50 // of a caller
)

// plans are the plans of all callers, in memory: who plans at a process acts at it.
type plans struct {
	mu       sync.Mutex // guards the fields below
	byNumber map[string]plan
	numbers  []string // oldest first
}

func callerOf(ctx context.Context) string {
	caller := access.FromContext(ctx)
	return string(caller.Method) + " " + caller.Name
}

// add adds a plan of the caller, and returns its number.
func (p *plans) add(ctx context.Context, made plan) (number string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	made.caller, made.made = callerOf(ctx), time.Now()
	var own []int
	for i, number := range p.numbers {
		if p.byNumber[number].caller == made.caller {
			own = append(own, i)
		}
	}
	if len(own) >= maxOwn {
		p.drop(own[0])
	}
	for len(p.numbers) > 0 && (len(p.numbers) >= maxPlans || time.Since(p.byNumber[p.numbers[0]].made) > planAge) {
		p.drop(0)
	}
	number = rand.Text()[:10]
	p.byNumber[number] = made
	p.numbers = append(p.numbers, number)
	return number
}

func (p *plans) drop(i int) {
	delete(p.byNumber, p.numbers[i])
	p.numbers = slices.Delete(p.numbers, i, i+1)
}

// find returns a plan of the caller.
func (p *plans) find(ctx context.Context, number string) (plan, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	found, known := p.byNumber[number]
	return found, known && found.caller == callerOf(ctx) && time.Since(found.made) <= planAge
}

// withArguments returns a copy of arguments with others.
func withArguments(arguments, others map[string]json.RawMessage) map[string]json.RawMessage {
	all := map[string]json.RawMessage{}
	maps.Copy(all, arguments)
	maps.Copy(all, others)
	return all
}
