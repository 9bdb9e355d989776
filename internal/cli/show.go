package cli

import (
	"bytes"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/app"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/terminal"
	"github.com/watershipmq/watership/schemas"
)

func newShow(from *settings) *cobra.Command {
	var raw bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show a message and its history",
		Long: `Show a message as it was first published, and all its events in order. ID is a
message id, a fingerprint, an event id, or the id that a message got at its first
failure.`,
		Example: "  watership show 6f1c0b9e\n  watership show --raw 6f1c0b9e > body.bin",
		Args:    exactArgs(1, "one id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return from.with(cmd, func(ctx context.Context, a *app.App) error {
				store, err := a.Store(ctx)
				if err != nil {
					return err
				}
				found, err := history.Find(ctx, store, args[0])
				if err != nil {
					return err
				}
				to := printer{streamsOf(cmd), from.screen(cmd.OutOrStdout())}
				if raw {
					return to.raw(ctx, store, found)
				}
				return to.lives(ctx, store, found)
			})
		},
	}
	cmd.Flags().BoolVar(&raw, "raw", false, "print only the exact bytes of the body")
	return cmd
}

// raw writes a body as it was published.
func (p printer) raw(ctx context.Context, store app.EventStore, found history.Lives) error {
	if len(found.List) > 1 {
		return fmt.Errorf("%q names more than one message: give --raw the fingerprint of one (show %[1]s lists them)", found.ID)
	}
	event, err := found.List[0].Whole(ctx, store)
	if err != nil {
		return err
	}
	if event.BodyIn != schemas.BodyHere {
		return fmt.Errorf("no event of message %s has its body", event.Fingerprint)
	}
	if terminal.IsTerminal(p.Out) && terminal.HasControls(event.Envelope.Body) {
		return fmt.Errorf("the body of message %s has characters that a terminal obeys: write it to a file with >", event.Fingerprint)
	}
	_, err = p.Out.Write(event.Envelope.Body)
	return err
}

// lives prints each message separately.
func (p printer) lives(ctx context.Context, store app.EventStore, found history.Lives) error {
	for i, l := range found.List {
		page := page{screen: p.screen}
		if i > 0 {
			page.WriteString("\n")
		}
		if err := page.message(ctx, store, l); err != nil {
			return err
		}
		if _, err := p.Out.Write(page.Bytes()); err != nil {
			return err
		}
	}
	if found.More {
		return p.printf("\nonly the first %d messages that %q names are shown", history.MaxLives, found.ID)
	}
	return nil
}

// page is the output of `show`.
type page struct {
	bytes.Buffer
	screen terminal.Screen
}

func (p *page) message(ctx context.Context, store app.EventStore, l history.Life) error {
	whole, err := l.Whole(ctx, store)
	if err != nil {
		return err
	}
	p.properties(whole)
	p.life(l)
	if err := p.failure(ctx, store, l.Events); err != nil {
		return err
	}
	p.headers(whole.Envelope.Headers)
	p.body(whole)
	return nil
}

func (p *page) title(text string) { fmt.Fprintf(p, "\n%s\n", p.screen.Paint(text, terminal.Bold)) }
