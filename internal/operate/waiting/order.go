package waiting

import (
	"cmp"
	"slices"
	"time"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/system/routeconfig"
	"github.com/watershipmq/watership/schemas"
)

// Order is the part of a waiting message in the order of its key.
type Order string

const (
	First Order = "first" // the later messages of its key wait until it is handled or given up
	Later Order = "later" // it waits for an earlier message of its key
)

// Orders has the routes whose messages wait for earlier ones of their key, by their queues.
type Orders map[string]route

// route is a route whose messages wait for earlier ones.
type route struct {
	key   func(schemas.Envelope) string
	class string // of the errors of messages that wait; "": all wait for the first
}

// OrdersOf returns the routes of a configuration whose messages wait for earlier ones.
func OrdersOf(settings config.Config) Orders {
	orders := Orders{}
	for _, r := range routeconfig.Routes(settings, routeconfig.Files{}) {
		switch {
		case r.Fairness.Key != nil && r.Fairness.Ordered:
			orders[r.Queue] = route{key: r.Fairness.Key}
		case r.Ordering.Key != nil:
			orders[r.Queue] = route{r.Ordering.Key, r.Ordering.Class}
		}
	}
	return orders
}

// Queues returns the queues of routes that handle the messages of a key one after the other.
func (o Orders) Queues() []string {
	var queues []string
	for queue, r := range o {
		if r.class == "" {
			queues = append(queues, queue)
		}
	}
	slices.Sort(queues)
	return queues
}

// find returns the key of a waiting message, and its part in the order. A message without an attempt
// waits for its key, which is unavailable, and is not the first.
func (o Orders) find(e schemas.Event) (key string, order Order) {
	r, ordered := o[e.Queue]
	if !ordered {
		return "", ""
	}
	key = r.key(e.Envelope)
	switch {
	case r.class != "" && e.Failure.Class == r.class, r.class == "" && e.Attempt+e.Waits == 0:
		order = Later
	case r.class == "":
		order = First
	}
	return key, order
}

// HeldKey is a key whose later messages wait for one.
type HeldKey struct {
	Key         string    `json:"key" doc:"Empty if the key is in the body"`
	MessageID   string    `json:"message_id" doc:"Id of the message that they wait for"`
	FirstFailed time.Time `json:"first_failed" doc:"When its first attempt failed"`
	Due         time.Time `json:"due" doc:"Time of its next attempt"`
}

// maxHeldKeys is the number of keys of a group that are named.
const maxHeldKeys = 10

// addKey adds the key of a message that later ones wait for. The oldest are kept.
func (g *WaitingGroup) addKey(m WaitingMessage) {
	if m.Order != First {
		return
	}
	g.HeldKeys++
	k := HeldKey{m.Key, cmp.Or(m.MessageID, m.ID), m.FirstFailed, m.Due}
	at, _ := slices.BinarySearchFunc(g.Keys, k, func(a, b HeldKey) int { return a.FirstFailed.Compare(b.FirstFailed) })
	if g.Keys = slices.Insert(g.Keys, at, k); len(g.Keys) > maxHeldKeys {
		g.Keys = g.Keys[:maxHeldKeys]
	}
}
