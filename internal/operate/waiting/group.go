package waiting

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/history"
)

// WaitingGroup has the waiting messages of a kind.
type WaitingGroup struct {
	history.Kind
	Count   int       `json:"count"`
	First   time.Time `json:"first" doc:"When the first of them is due"`
	Last    time.Time `json:"last" doc:"When the last of them is due"`
	Oldest  time.Time `json:"oldest" doc:"When the first attempt of the message that has failed for the longest time failed"`
	Example string    `json:"example" doc:"Id of the message that is due first"`
	Query   string    `json:"query" doc:"Finds the messages"`

	HeldKeys int       `json:"held_keys,omitempty" doc:"Number of keys whose later messages wait for one of these"`
	Keys     []HeldKey `json:"keys,omitempty" nullable:"false" doc:"The first 10 of these keys, the one that failed first at the top"`
}

// Groups returns the messages that wait at a time and match a query by their kinds, the
// most frequent first.
func Groups(ctx context.Context, store Store, orders Orders, query kql.Node, now time.Time) ([]*WaitingGroup, error) {
	groups := map[history.Kind]*WaitingGroup{}
	for m, err := range List(ctx, store, orders, query, now) {
		if err != nil {
			return nil, err
		}
		kind := history.Kind{Queue: m.Queue, Class: m.Class, Type: m.Type, Group: m.Group}
		if groups[kind] == nil {
			groups[kind] = &WaitingGroup{Kind: kind, Query: kind.Events().String()}
		}
		groups[kind].add(m)
	}
	return slices.SortedFunc(maps.Values(groups), func(a, b *WaitingGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), a.First.Compare(b.First), cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Class, b.Class), cmp.Compare(a.Type, b.Type))
	}), nil
}

func (g *WaitingGroup) add(m WaitingMessage) {
	g.Count++
	if g.Count == 1 || m.Due.Before(g.First) {
		g.First, g.Example = m.Due, cmp.Or(m.MessageID, m.ID)
	}
	if m.Due.After(g.Last) {
		g.Last = m.Due
	}
	if began := m.began(); g.Count == 1 || began.Before(g.Oldest) {
		g.Oldest = began
	}
	g.addKey(m)
}

// Select returns the messages that wait at a time, match a query and have one of the ids,
// the next due first; without ids, all that match. unknown are the ids of none of them.
func Select(ctx context.Context, store Store, orders Orders, query kql.Node, ids []string, now time.Time) (messages []WaitingMessage, unknown []string, err error) {
	known := map[string]bool{}
	for _, id := range ids {
		known[id] = false
	}
	for m, err := range List(ctx, store, orders, query, now) {
		if err != nil {
			return nil, nil, err
		}
		has := len(ids) == 0
		for _, id := range []string{m.ID, m.MessageID, m.Fingerprint, m.EventID} {
			if _, wanted := known[id]; wanted {
				has, known[id] = true, true
			}
		}
		if has {
			messages = append(messages, m)
		}
	}
	for _, id := range ids {
		if !known[id] {
			unknown = append(unknown, id)
		}
	}
	slices.SortStableFunc(messages, func(a, b WaitingMessage) int { return a.Due.Compare(b.Due) })
	return messages, unknown, nil
}
