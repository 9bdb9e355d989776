package history

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/storeread"
	"github.com/watershipmq/watership/schemas"
)

// MaxConversation is the maximum number of messages in a Conversation.
const MaxConversation = 500

// Conversation has the messages that belong together: those with the same correlation
// id, and those that handlers published for one another.
type Conversation struct {
	Messages []ConversationMessage // by time
	More     bool                  // there are more
}

// ConversationMessage is a message of a conversation.
type ConversationMessage struct {
	Fingerprint   string
	MessageID     string
	CorrelationID string
	Parent        string // fingerprint of the message whose handler published this one
	Exchange      string
	RoutingKey    string
	Type          string
	First, Last   time.Time // of its events
	State         MessageState
	Actions       []schemas.Action // of its events, in order, each once in a row
	Queues        []string         // where it was handled or failed
}

// FindConversation returns the conversation of the messages with an id. causation is the
// header in which handlers name the message that they handled; "": none.
func FindConversation(ctx context.Context, store CheckedStore, id, causation string, reporters Reporters) (Conversation, error) {
	c := conversation{store: store, causation: causation, messages: map[string]*ConversationMessage{}, asked: map[string]bool{}, seen: map[string]bool{}}
	for next := kql.Or(withID(id).(kql.Or)); len(next) > 0 && !c.more; {
		found, err := c.read(ctx, next)
		if err != nil {
			return Conversation{}, err
		}
		next = c.lookups(found)
	}
	if len(c.messages) == 0 {
		if err := store.Check(ctx); err != nil {
			return Conversation{}, err
		}
		return Conversation{}, &NotFoundError{ID: id}
	}
	all := c.sorted()
	return all, addStates(ctx, store, all.Messages, reporters)
}

// addStates reads what became of messages, as lists of messages do.
func addStates(ctx context.Context, store EventStore, messages []ConversationMessage, reporters Reporters) error {
	fingerprints := make([]string, len(messages))
	for i, m := range messages {
		fingerprints[i] = m.Fingerprint
	}
	lives, err := livesReader{store}.lives(ctx, fingerprints)
	if err != nil {
		return err
	}
	queues, err := queuesOf(ctx, store, lives, reporters)
	if err != nil {
		return err
	}
	for i := range messages {
		messages[i].State = stateOf(queues[i])
	}
	return nil
}

type conversation struct {
	store     EventStore
	causation string
	messages  map[string]*ConversationMessage // by fingerprint
	asked     map[string]bool                 // conditions of earlier queries
	seen      map[string]bool                 // events of earlier queries, by id
	more      bool
}

// read adds the events of a query, and returns the messages among them.
func (c *conversation) read(ctx context.Context, either kql.Or) (found []*ConversationMessage, err error) {
	selection := eventstore.Selection{Query: either, Order: eventstore.BySequence, WithoutBody: true}
	for e, err := range storeread.Readable(c.store.Events(ctx, selection)) {
		if err != nil {
			return nil, err
		}
		if e.Fingerprint == "" || e.Action.OfNoMessage() || c.seen[e.EventID] {
			continue
		}
		c.seen[e.EventID] = true
		m := c.messages[e.Fingerprint]
		if m == nil {
			if len(c.messages) == MaxConversation {
				c.more = true
				return found, nil
			}
			m = &ConversationMessage{Fingerprint: e.Fingerprint, First: e.Time, Last: e.Time}
			c.messages[e.Fingerprint] = m
		}
		c.add(m, e)
		found = append(found, m)
	}
	return found, ctx.Err()
}

func (c *conversation) add(m *ConversationMessage, e schemas.Event) {
	p := e.Envelope.Properties
	m.MessageID, m.CorrelationID, m.Type = p.MessageID, p.CorrelationID, p.Type
	m.Exchange, m.RoutingKey = e.Envelope.Exchange, e.Envelope.RoutingKey
	if of, is := e.Envelope.Headers[c.causation].(string); is && of != e.Fingerprint {
		m.Parent = of
	}
	if e.Parent != "" {
		m.Parent = e.Parent
	}
	if e.Time.Before(m.First) {
		m.First = e.Time
	}
	if e.Time.After(m.Last) {
		m.Last = e.Time
	}
	if action := e.RecordedAction(); len(m.Actions) == 0 || m.Actions[len(m.Actions)-1] != action {
		m.Actions = append(m.Actions, action)
	}
	if e.Queue != "" && !slices.Contains(m.Queues, e.Queue) {
		m.Queues = append(m.Queues, e.Queue)
	}
}

// lookups returns the conditions of messages that belong to some messages, without those
// of earlier queries.
func (c *conversation) lookups(of []*ConversationMessage) (next kql.Or) {
	ask := func(field, value string) {
		if key := field + " " + value; value != "" && !c.asked[key] {
			c.asked[key] = true
			next = append(next, kql.FieldIs(field, value))
		}
	}
	for _, m := range of {
		ask("watership.fingerprint", m.Fingerprint)
		ask("watership.fingerprint", m.Parent)
		ask("messaging.message.id", m.Parent)
		ask("watership.parent", m.Fingerprint)
		ask("messaging.message.conversation_id", m.CorrelationID)
		if c.causation != "" {
			ask("headers."+c.causation, m.Fingerprint)
			ask("headers."+c.causation, m.MessageID)
		}
	}
	return next
}

func (c *conversation) sorted() Conversation {
	all := Conversation{More: c.more}
	for _, m := range c.messages {
		all.Messages = append(all.Messages, *m)
	}
	c.resolveParents(all.Messages)
	slices.SortFunc(all.Messages, func(a, b ConversationMessage) int {
		if by := a.First.Compare(b.First); by != 0 {
			return by
		}
		return strings.Compare(a.Fingerprint, b.Fingerprint)
	})
	return all
}

// resolveParents replaces message ids of parents, which the header may have, by
// fingerprints. Of several messages with an id, the first is the parent.
func (c *conversation) resolveParents(messages []ConversationMessage) {
	first := map[string]*ConversationMessage{}
	for i := range messages {
		m := &messages[i]
		if before := first[m.MessageID]; m.MessageID != "" && (before == nil || m.First.Before(before.First)) {
			first[m.MessageID] = m
		}
	}
	for i := range messages {
		m := &messages[i]
		parent := first[m.Parent]
		if c.messages[m.Parent] == nil && parent != nil && parent.Fingerprint != m.Fingerprint {
			m.Parent = parent.Fingerprint
		}
	}
}
