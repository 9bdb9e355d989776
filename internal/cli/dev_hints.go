package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/cli/shop"
	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/schemas"
)

// printHints prints commands to try, once there is a message for each, with a status line
// below, until ctx ends.
func (d *dev) printHints(ctx context.Context) error {
	store, err := d.sys.Store(ctx)
	if err != nil {
		return err
	}
	since, err := store.HighestSequence(ctx)
	if err != nil {
		return err
	}
	line := &statusLine{Streams: d.Streams, screen: d.screen, store: store, file: d.settings.Store.URL.File(), since: eventstore.Cursor{Sequence: since}}
	defer line.clear()
	hints := d.hints(line.since)
	for {
		for len(hints) > 0 {
			id, err := hints[0].when(ctx, store)
			if err != nil {
				return err
			}
			if id == "" {
				break
			}
			line.clear()
			fmt.Fprint(d.Out, hints[0].text(id))
			hints = hints[1:]
		}
		if err := line.show(ctx); err != nil {
			return err
		}
		if backoff.Sleep(ctx, hintInterval) != nil {
			return nil
		}
	}
}

const hintInterval = time.Second / 2

// hint is a text with commands for a message, which must be in the store first.
type hint struct {
	when func(context.Context, system.EventStore) (id string, err error)
	text func(id string) string
}

func (d *dev) hints(since eventstore.Cursor) []hint {
	command := d.commandPrefix()
	if d.shop == nil {
		return []hint{{
			when: func(context.Context, system.EventStore) (string, error) { return "none", nil },
			text: func(string) string {
				return fmt.Sprintf("Try, in a second terminal in this folder:\n\n  %s doctor\n  %s search\n\n", command, command)
			},
		}}
	}
	handled := kql.FieldIs("event.action", string(schemas.Handled))
	lost := kql.And{kql.FieldIs("event.action", string(schemas.Poisoned)), kql.FieldIs("watership.queue", shop.Billing), kql.FieldIs("watership.class", shop.PaymentClass)}
	back := time.Now().Add(shop.OutageEnd)
	return []hint{
		{
			when: func(ctx context.Context, store system.EventStore) (string, error) {
				return firstMessageID(ctx, store, handled, since)
			},
			text: func(id string) string {
				return fmt.Sprintf(`An example shop takes %v orders a second. Try, in a second terminal in this folder:

  %[2]s search
  %[2]s show %[3]s
  %[2]s tail
  %[2]s search --by action
  echo '{"number": 0, "customer": "you"}' | %[2]s publish --exchange %[4]s --key order.placed --message-id mine
  %[2]s show mine

Its payment provider fails in a moment, for a few seconds.

`, d.rate, command, id, shop.Orders)
			},
		},
		{
			when: func(ctx context.Context, store system.EventStore) (string, error) {
				if time.Now().Before(back) {
					return "", nil
				}
				return firstMessageID(ctx, store, lost, since)
			},
			text: func(id string) string {
				return fmt.Sprintf(`The payment provider is back. Some orders have failed for good: %[4]s

  %[1]s failed
  %[1]s show %[2]s
  %[1]s replay 'message.id: %[2]s and action: poisoned' --to-failed-queue --yes
  %[1]s show %[2]s
  %[1]s replay 'action: poisoned and watership.class: %[3]s' --to-failed-queue --dry-run

`, command, id, shop.PaymentClass, d.page("/failures"))
			},
		},
	}
}

// page returns the URL of a page of the console, or "" if none exists.
func (d *dev) page(path string) string {
	if d.console == "" {
		return ""
	}
	return d.console + path
}

// maxTried is the number of messages that are searched for one whose id needs no quotes.
const maxTried = 100

// firstMessageID returns the id of the first message after a cursor whose id a shell and
// a query read as one plain word, since users paste the command with it.
func firstMessageID(ctx context.Context, store system.EventStore, node kql.Node, since eventstore.Cursor) (string, error) {
	sel := eventstore.Selection{Query: node, Order: eventstore.BySequence, After: since, Limit: maxTried, WithoutBody: true}
	for event, err := range store.Events(ctx, sel) {
		if id := event.Envelope.Properties.MessageID; err != nil || isWord(id) && !needsQuotes(id) {
			return id, err
		}
	}
	return "", nil
}

// statusLine is a line with the number of events by action, on a terminal only.
type statusLine struct {
	terminal.Streams
	screen terminal.Screen
	store  system.EventStore
	file   string // of the store; "" where it is a server
	since  eventstore.Cursor
	drawn  bool
}

func (f *statusLine) show(ctx context.Context) error {
	if f.screen.Width == 0 {
		return nil
	}
	aggregation, err := f.store.TopValues(ctx, eventstore.Selection{After: f.since}, "event.action", len(actions()))
	if err != nil {
		return err
	}
	counts := map[string]int64{}
	for _, value := range aggregation.Values {
		counts[value.Text] = value.Count
	}
	parts := make([]string, 0, len(actions()))
	for _, action := range actions() {
		if counts[action] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[action], strings.ReplaceAll(action, "_", " ")))
		}
	}
	if size := sizeOf(f.file) + sizeOf(f.file+"-wal"); size > 0 {
		parts = append(parts, fmt.Sprintf("store %d MB", max(1, size/1e6)))
	}
	_, err = fmt.Fprintf(f.Out, "\r\x1b[K%s", terminal.Cell(strings.Join(parts, ", "), f.screen.Width-1))
	f.drawn = true
	return err
}

// sizeOf returns the size of a file in bytes; 0 if it does not exist.
func sizeOf(file string) int64 {
	info, err := os.Stat(file)
	if err != nil {
		return 0
	}
	return info.Size()
}

func (f *statusLine) clear() {
	if f.drawn {
		fmt.Fprint(f.Out, "\r\x1b[K")
		f.drawn = false
	}
}

// isTemporary reports whether `go run` has made a program, which it deletes at the end.
func isTemporary(program string) bool {
	return strings.Contains(filepath.ToSlash(program), "/go-build")
}
