package retry

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

const policies = 2000

// For random policies and errors, a message never has more attempts than its
// policy allows, and every delay lies within its bounds and has a queue.
func TestRandomPoliciesAreObeyed(t *testing.T) {
	for seed := range uint64(policies) {
		random := rand.New(rand.NewPCG(seed, 1))
		policy := randomPolicy(random)
		if err := policy.Validate(); err != nil {
			t.Fatalf("seed %d: %+v: %v", seed, policy, err)
		}
		failUntilPoison(t, seed, policy, random)
		if t.Failed() {
			return
		}
	}
}

// failUntilPoison fails every attempt of one message.
func failUntilPoison(t *testing.T, seed uint64, policy Policy, random *rand.Rand) {
	queues := append(policy.AllDelays(), StandardDelays()...)
	for attempt := 1; ; attempt++ {
		own, err := randomFailure(policy, random)
		decision := policy.Next(Failure{Err: err, Attempt: attempt}, random.Float64)
		if decision.Action == Poison {
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
		if own.Jitter == 0 && policy.Next(Failure{Err: err, Attempt: attempt}, random.Float64) != decision {
			t.Errorf("seed %d: two decisions about attempt %d", seed, attempt)
		}
	}
}

func randomFailure(policy Policy, random *rand.Rand) (Policy, error) {
	for class, own := range policy.Classes {
		if random.IntN(2) == 0 {
			return own, Class(class, errBroken)
		}
	}
	return policy, errBroken
}

func randomPolicy(random *rand.Rand) Policy {
	policy := randomSchedule(random)
	for _, class := range []string{"a", "b"}[:random.IntN(3)] {
		if policy.Classes == nil {
			policy.Classes = map[string]Policy{}
		}
		policy.Classes[class] = randomSchedule(random)
	}
	return policy
}

func randomSchedule(random *rand.Rand) Policy {
	if random.IntN(3) == 0 {
		var listed Policy
		for range random.IntN(20) {
			listed.Delays = append(listed.Delays, randomDelay(random))
		}
		return listed
	}
	growing := Policy{First: randomDelay(random), Attempts: 1 + random.IntN(60)}
	if random.IntN(2) == 0 {
		growing.Factor = 1 + 4*random.Float64()
	}
	if random.IntN(2) == 0 {
		growing.Cap = min(growing.First+randomDelay(random), MaxDelay)
	}
	if random.IntN(2) == 0 {
		growing.Jitter = random.Float64()
	}
	return growing
}

// randomDelay returns a delay of any magnitude.
func randomDelay(random *rand.Rand) time.Duration {
	magnitude := int64(1) << random.IntN(33)
	return time.Duration(1+random.Int64N(magnitude)) * time.Millisecond
}
