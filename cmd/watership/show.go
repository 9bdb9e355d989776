package main

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/schemas/query"
)

func newShow(from *settings) *cobra.Command {
	var raw bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show a message and its whole life",
		Long: `show takes a message id, a fingerprint, the id that a message got at its first
failure, or the id of an event, and prints the message as first published, and
every event of its life in order.`,
		Example: "  watership show 6f1c0b9e\n  watership show --raw 6f1c0b9e > body.bin",
		Args:    exactly(1, "one id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := from.system(terminalOf(cmd))
			if err != nil {
				return err
			}
			store, err := s.store(cmd.Context())
			if err != nil {
				return err
			}
			defer store.Close()
			found, err := findLives(cmd.Context(), store, args[0])
			if err != nil {
				return err
			}
			to := list{terminalOf(cmd), from.screen(cmd.OutOrStdout())}
			if raw {
				return to.raw(found)
			}
			return to.lives(found)
		},
	}
	cmd.Flags().BoolVar(&raw, "raw", false, "print the exact bytes of the body and nothing else")
	return cmd
}

// life is a message and its events, in order.
type life struct {
	fingerprint string
	events      []schemas.Event
}

// mostLives is how many messages show prints of those that share an id.
const mostLives = 20

// lives are the messages that an id names.
type lives struct {
	id   string
	list []life
	more bool // there are more than these
}

func findLives(ctx context.Context, store eventStore, id string) (lives, error) {
	found := lives{id: id}
	seen := map[string]bool{}
	for fact, err := range store.Facts(ctx, schemas.Selection{Query: about(id)}) {
		switch {
		case err != nil:
			return found, err
		case seen[fact.Fingerprint]:
			continue
		case len(found.list) == mostLives:
			found.more = true
			return found, nil
		}
		l, err := readLife(ctx, store, fact.Fingerprint)
		if err != nil {
			return found, err
		}
		for _, e := range l.events {
			seen[e.Fingerprint] = true
		}
		found.list = append(found.list, l)
	}
	if len(found.list) > 0 {
		return found, nil
	}
	if err := store.Check(ctx); err != nil {
		return found, err
	}
	return found, fmt.Errorf("no message or event is called %q: expected a message id, a fingerprint or the id of an event", id)
}

// readLife reads the events of a message, and of what a replay made of it with
// other headers, which has a fingerprint of its own.
func readLife(ctx context.Context, store eventStore, fingerprint string) (life, error) {
	events, err := collect(ctx, store.Events(ctx, schemas.Selection{Query: is("watership.fingerprint", fingerprint), Order: schemas.BySequence}))
	if err != nil {
		return life{}, err
	}
	replays := schemas.Among{Field: "watership.replay.of"}
	for _, e := range events {
		replays.Values = append(replays.Values, e.EventID)
	}
	var others query.Or
	for fact, err := range store.Facts(ctx, schemas.Selection{Query: query.Not{Node: is("watership.fingerprint", fingerprint)}}, replays) {
		if err != nil {
			return life{}, err
		}
		others = append(others, is("event.id", fact.EventID))
	}
	if len(others) > 0 {
		changed, err := collect(ctx, store.Events(ctx, schemas.Selection{Query: others, Order: schemas.BySequence}))
		if err != nil {
			return life{}, err
		}
		events = append(events, changed...)
	}
	return life{fingerprint, inOrder(events)}, nil
}

// collect reads a few events into memory.
func collect(ctx context.Context, events iter.Seq2[schemas.Event, error]) ([]schemas.Event, error) {
	var list []schemas.Event
	for event, err := range events {
		if err != nil {
			return nil, err
		}
		list = append(list, event)
	}
	return list, ctx.Err()
}

// inOrder sorts events by when they happened. Of a message that carries no time
// it is known only when the tap's copy was recorded, which may be after its
// first failure; it was published before anything else happened to it.
func inOrder(events []schemas.Event) []schemas.Event {
	type passage struct{ fingerprint, job string }
	first := map[passage]time.Time{}
	for _, e := range events {
		p := passage{e.Fingerprint, e.Replay}
		if earliest, seen := first[p]; e.Action != schemas.Replayed && (!seen || e.Time.Before(earliest)) {
			first[p] = e.Time
		}
	}
	happened := func(e schemas.Event) time.Time {
		if e.Action == schemas.Published && e.TimeSource == schemas.TimeTaken {
			return first[passage{e.Fingerprint, e.Replay}].Add(-1)
		}
		return e.Time
	}
	slices.SortStableFunc(events, func(a, b schemas.Event) int { return happened(a).Compare(happened(b)) })
	return events
}

// whole is an event that has the body, else the first.
func (l life) whole() schemas.Event {
	for _, event := range l.events {
		if event.BodyIn == schemas.BodyHere {
			return event
		}
	}
	return l.events[0]
}

// raw writes a body as it was published.
func (to list) raw(found lives) error {
	if len(found.list) > 1 {
		return fmt.Errorf("%q names more than one message: give --raw the fingerprint of one (show %[1]s lists them)", found.id)
	}
	event := found.list[0].whole()
	if event.BodyIn != schemas.BodyHere {
		return fmt.Errorf("no event of message %s has its body", event.Fingerprint)
	}
	_, err := to.out.Write(event.Envelope.Body)
	return err
}

// lives prints each message apart.
func (to list) lives(found lives) error {
	page := page{screen: to.screen}
	for i, l := range found.list {
		if i > 0 {
			page.WriteString("\n")
		}
		message := l.whole()
		page.properties(message)
		page.life(l.events)
		page.failure(l.events)
		page.headers(message.Envelope.Headers)
		page.body(message)
	}
	if found.more {
		fmt.Fprintf(&page, "\nonly the first %d messages that %q names are shown\n", mostLives, found.id)
	}
	_, err := to.out.Write(page.Bytes())
	return err
}

// page is what show prints.
type page struct {
	bytes.Buffer
	screen screen
}

func (p *page) title(text string) { fmt.Fprintf(p, "\n%s\n", p.screen.paint(text, bold)) }
