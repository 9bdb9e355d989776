package doctor

import (
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/schemas"
)

func refusedBecause(why string, at time.Time) schemas.Event {
	return schemas.Event{
		Action: schemas.Quarantined, QuarantinedAction: schemas.Published,
		State: schemas.State{Time: at, Failure: schemas.Failure{Message: why}},
	}
}

func TestTheNewestRefusalIsTheReason(t *testing.T) {
	s, now := newSetUpSite(t), time.Now()
	systemtest.Record(t, s.system, refusedBecause("oldest", now.Add(-2*time.Hour)), refusedBecause("newest", now), refusedBecause("older", now.Add(-time.Hour)))
	want(t, of("quarantine", Run(t.Context(), s.Config)), Warning, "3 events in quarantine, the newest since: newest", "watership quarantine list")
}

// A message that is no event, and came after the refusal, says nothing about the reason.
func TestTheReasonIsThatOfAnEvent(t *testing.T) {
	s, now := newSetUpSite(t), time.Now()
	noEvent := schemas.Event{Action: schemas.Quarantined, State: schemas.State{Time: now, Failure: schemas.Failure{Message: "no event"}}}
	systemtest.Record(t, s.system, refusedBecause("no number", now.Add(-time.Hour)), noEvent)
	want(t, of("quarantine", Run(t.Context(), s.Config)), Warning, "1 event in quarantine, the newest since: no number", "")
}

// published is a message, with a priority or without.
func published(byPriority bool) schemas.Event {
	return schemas.Event{Action: schemas.Published, ByPriority: byPriority}
}

func TestMessagesWithPrioritiesAreCounted(t *testing.T) {
	s := newSetUpSite(t)
	systemtest.Record(t, s.system, published(true), published(false), published(true))
	want(t, of("order", Run(t.Context(), s.Config)), Warning, "2 of the newest 3 published messages have a priority", "tap.queue_type: classic")
}

func TestOnlyTheNewestMessagesAreLookedAt(t *testing.T) {
	s, now := newSetUpSite(t), time.Now()
	old := published(true)
	old.Time = now.Add(-time.Hour)
	events := []schemas.Event{old}
	for range maxOrdered {
		e := published(false)
		e.Time = now
		events = append(events, e)
	}
	systemtest.Record(t, s.system, events...)
	if found := of("order", Run(t.Context(), s.Config)); len(found) > 0 {
		t.Errorf("%+v", found)
	}
}
