package main

import (
	"bytes"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/schemas"
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
