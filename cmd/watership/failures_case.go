package main

import (
	"maps"
	"slices"

	"github.com/watershipmq/watership/schemas"
)

// casework decides which of some failures are resolved, by the events that it sees.
type casework struct {
	given    []schemas.Fact
	resolved []bool
	reports  map[string]bool

	instances    map[string][]int // failures by instance id
	fingerprints map[string][]int // failures of messages that have an id of their own
	events       map[string][]int // failures by the events of their message
}

func newCase(given []schemas.Fact, reports map[string]bool) *casework {
	c := &casework{
		given: given, resolved: make([]bool, len(given)), reports: reports,
		instances: map[string][]int{}, fingerprints: map[string][]int{}, events: map[string][]int{},
	}
	for i, failure := range given {
		c.events[failure.EventID] = []int{i}
		if failure.Message != "" {
			c.instances[failure.Message] = append(c.instances[failure.Message], i)
		}
		if failure.MessageID != "" { // else equal messages have it too
			c.fingerprints[failure.Fingerprint] = append(c.fingerprints[failure.Fingerprint], i)
		}
	}
	return c
}

// related are the events of the same messages.
func (c *casework) related() []schemas.Among {
	return []schemas.Among{
		{Field: "watership.message", Values: slices.Collect(maps.Keys(c.instances))},
		{Field: "watership.fingerprint", Values: slices.Collect(maps.Keys(c.fingerprints))},
	}
}

// names are the ids of all events of the messages.
func (c *casework) names() []string { return slices.Collect(maps.Keys(c.events)) }

// see takes an event of one of the messages.
func (c *casework) see(e schemas.Fact) {
	of := slices.Concat(c.instances[e.Message], c.fingerprints[e.Fingerprint])
	for _, i := range of {
		failure := c.given[i]
		if !slices.Contains(c.events[e.EventID], i) {
			c.events[e.EventID] = append(c.events[e.EventID], i)
		}
		if e.Sequence <= failure.Sequence || e.Queue != failure.Queue {
			continue
		}
		sameInstance := e.Message != "" && e.Message == failure.Message
		switch e.Action {
		case schemas.Handled:
			// A replay's, though what it was of may be past its retention.
			c.resolved[i] = c.resolved[i] || sameInstance || e.ReplayOf != ""
		case schemas.Discarded:
			c.resolved[i] = c.resolved[i] || sameInstance
		}
	}
}

// seeReplay takes an event of a replay, or a discarding, of one of the events.
func (c *casework) seeReplay(e schemas.Fact) {
	for _, i := range c.events[e.ReplayOf] {
		failure := c.given[i]
		if e.Sequence <= failure.Sequence {
			continue
		}
		switch e.Action {
		case schemas.Handled, schemas.Poisoned:
			c.resolved[i] = c.resolved[i] || e.Queue == failure.Queue
		case schemas.Discarded:
			c.resolved[i] = c.resolved[i] || e.ReplayOf == failure.EventID
		case schemas.Replayed:
			reached := e.Queue == "" || e.Queue == failure.Queue
			c.resolved[i] = c.resolved[i] || reached && !c.reports[failure.Queue]
		}
	}
}

func (c *casework) left() []schemas.Fact {
	var left []schemas.Fact
	for i, failure := range c.given {
		if !c.resolved[i] {
			left = append(left, failure)
		}
	}
	return left
}
