package cli

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"github.com/watershipmq/watership/internal/operation/code"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/schemas"
)

func newShow(from *settings) *cobra.Command {
	var raw bool
	var asked originals
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show a message and its history",
		Long: `Show a message as it was first published, and all its events in order. ID is a
message id, a fingerprint, an event id, or the id that a message got at its first
failure. Values that rules have replaced by hashes stay hashed, except with
--original, for whoever may read originals: an audit event has the reason.`,
		Example: `  watership show 6f1c0b9e
  watership show --raw 6f1c0b9e > body.bin
  watership show 6f1c0b9e --original --reason 'ticket 4711'`,
		Args: exactArgs(1, "one id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := asked.check(); err != nil {
				return err
			}
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error {
				to := from.printer(cmd)
				if raw {
					return to.raw(ctx, sys, args[0], asked.wanted)
				}
				return to.messages(ctx, sys, args[0], asked.wanted)
			})
		},
	}
	cmd.Flags().BoolVar(&raw, "raw", false, "print only the exact bytes of the body")
	asked.addFlags(cmd, "show the message as it was published, before values were replaced; it needs --reason")
	return cmd
}

// originals are the flags of a command that reads originals of redacted messages.
type originals struct {
	wanted bool
	reason string // which reasonOf finds
}

func (o *originals) addFlags(cmd *cobra.Command, usage string) {
	cmd.Flags().BoolVar(&o.wanted, "original", false, usage)
	cmd.Flags().StringVar(&o.reason, "reason", "", "with --original: why it is read, for the record")
}

func (o *originals) check() error {
	hasReason := access.CleanReason(o.reason) != ""
	switch {
	case o.wanted && !hasReason:
		return usagef("--original needs --reason")
	case !o.wanted && hasReason:
		return usagef("--reason is for --original; --server-reason says why bodies are read")
	}
	return nil
}

// raw writes a body as it was published.
func (p printer) raw(ctx context.Context, sys operation.Via, id string, original bool) error {
	found, err := messages.GetBody.Call(ctx, sys, messages.BodyInput{ID: id, Original: original})
	body := found.Body
	switch {
	case isRefused(err, code.AmbiguousID):
		return fmt.Errorf("%q names more than one message: give --raw the fingerprint of one (show %[1]s lists them)", id)
	case err != nil:
		return err
	case terminal.IsTerminal(p.Out) && terminal.HasControls(body):
		return fmt.Errorf("the body of message %s has characters that a terminal obeys: write it to a file with >", id)
	}
	_, err = p.Out.Write(body)
	return err
}

// foundMessage is a message with its history.
type foundMessage struct {
	history.Life
	Event     schemas.Event // with the whole message, if there is one
	HasBodies bool          // the caller may read them
}

// findMessages returns the messages with an id, without their bodies if the caller may not read them.
func findMessages(ctx context.Context, sys backend, id string, original bool) (list []foundMessage, more bool, err error) {
	version, err := sys.Version(ctx)
	if err != nil {
		return nil, false, err
	}
	mayRead := version.Caller.Bodies
	found, err := messages.GetMessages.Call(ctx, sys, messages.MessagesInput{ID: id, WithBody: mayRead, Original: original})
	if err != nil {
		return nil, false, err
	}
	for _, m := range found.Body.Messages {
		parsed := foundMessage{Life: history.Life{More: m.More}, HasBodies: mayRead}
		if parsed.Event, err = schemas.ParseDocument(m.Event); err != nil {
			return nil, false, err
		}
		for _, document := range m.History {
			e, err := schemas.ParseDocument(document)
			if err != nil {
				return nil, false, err
			}
			parsed.Events = append(parsed.Events, e)
		}
		list = append(list, parsed)
	}
	return list, found.Body.More, nil
}

// messages prints each message with an id separately.
func (p printer) messages(ctx context.Context, sys backend, id string, original bool) error {
	found, more, err := findMessages(ctx, sys, id, original)
	if isRefused(err, code.AmbiguousID) {
		return fmt.Errorf("%q names more than one message: give --original the fingerprint of one (show %[1]s lists them)", id)
	}
	if err != nil {
		return err
	}
	for i, m := range found {
		page := page{screen: p.screen}
		if i > 0 {
			page.WriteString("\n")
		}
		if err := page.message(ctx, sys, m); err != nil {
			return err
		}
		if _, err := p.Out.Write(page.Bytes()); err != nil {
			return err
		}
	}
	if more {
		return p.printf("\nonly the first %d messages that %q names are shown", history.MaxLives, id)
	}
	return nil
}

// page is the output of `show`.
type page struct {
	bytes.Buffer
	screen terminal.Screen
}

func (p *page) message(ctx context.Context, sys backend, m foundMessage) error {
	p.properties(m.Event)
	p.life(m.Life)
	if err := p.failure(ctx, sys, m.Events); err != nil {
		return err
	}
	p.headers(m.Event.Envelope.Headers)
	p.body(m.Event, m.HasBodies)
	p.changedCopies(m)
	return nil
}

// changedCopies names the copies of a message that replays have changed.
func (p *page) changedCopies(m foundMessage) {
	shown := map[string]bool{"": true, m.Event.Fingerprint: true}
	title := sync.OnceFunc(func() { p.title(p.screen.TimesTitle("changed by replays")) })
	for _, e := range m.Events {
		if shown[e.Fingerprint] {
			continue
		}
		shown[e.Fingerprint] = true
		title()
		fmt.Fprintf(p, "  %s  watership show %s\n", terminal.TimeCell(e.Time), terminal.Cell(e.Fingerprint, 0))
	}
}

func (p *page) title(text string) { fmt.Fprintf(p, "\n%s\n", p.screen.Paint(text, terminal.Bold)) }
