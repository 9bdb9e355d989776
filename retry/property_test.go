package retry

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

const policies = 2000

// Whatever the policy and whatever the errors: a message has never more
// attempts than its policy says, and every delay lies within its bounds and has
// a queue.
func TestPolicyKeepsItsWord(t *testing.T) {
	for seed := range uint64(policies) {
		random := rand.New(rand.NewPCG(seed, 1))
		policy := anyPolicy(random)
		if err := policy.Validate(); err != nil {
			t.Fatalf("seed %d: %+v: %v", seed, policy, err)
		}
		live(t, seed, policy, random)
		if t.Failed() {
			return
		}
	}
}

// live fails one message until it is poison.
func live(t *testing.T, seed uint64, policy Policy, random *rand.Rand) {
	queues := append(policy.AllDelays(), Ladder()...)
	for attempt := 1; ; attempt++ {
		own, err := anyFailure(policy, random)
		decision := policy.Next(err, attempt, random.Float64)
		if decision.Verb == Poison {
			return
		}
		if attempt >= own.attempts() {
			t.Errorf("seed %d: attempt %d of %d is followed by another", seed, attempt, own.attempts())
			return
		}
		high := own.delay(attempt)
		low := min(time.Duration(float64(high)*(1-own.Jitter)), high)
		if decision.Delay < low || decision.Delay > high {
			t.Errorf("seed %d: waited %s after attempt %d: not within %s and %s", seed, decision.Delay, attempt, low, high)
		}
		if !slices.Contains(queues, decision.Delay) {
			t.Errorf("seed %d: no queue for %s", seed, decision.Delay)
		}
		if own.Jitter == 0 && policy.Next(err, attempt, random.Float64) != decision {
			t.Errorf("seed %d: two decisions about attempt %d", seed, attempt)
		}
	}
}

func anyFailure(policy Policy, random *rand.Rand) (Policy, error) {
	for class, own := range policy.Classes {
		if random.IntN(2) == 0 {
			return own, Class(class, errBroken)
		}
	}
	return policy, errBroken
}

func anyPolicy(random *rand.Rand) Policy {
	policy := anySchedule(random)
	for _, class := range []string{"a", "b"}[:random.IntN(3)] {
		if policy.Classes == nil {
			policy.Classes = map[string]Policy{}
		}
		policy.Classes[class] = anySchedule(random)
	}
	return policy
}

func anySchedule(random *rand.Rand) Policy {
	if random.IntN(3) == 0 {
		var listed Policy
		for range random.IntN(20) {
			listed.Delays = append(listed.Delays, anyDelay(random))
		}
		return listed
	}
	growing := Policy{First: anyDelay(random), Attempts: 1 + random.IntN(60)}
	if random.IntN(2) == 0 {
		growing.Factor = 1 + 4*random.Float64()
	}
	if random.IntN(2) == 0 {
		growing.Cap = min(growing.First+anyDelay(random), MaxDelay)
	}
	if random.IntN(2) == 0 {
		growing.Jitter = random.Float64()
	}
	return growing
}

// anyDelay is a delay of any magnitude.
func anyDelay(random *rand.Rand) time.Duration {
	magnitude := int64(1) << random.IntN(33)
	return time.Duration(1+random.Int64N(magnitude)) * time.Millisecond
}
