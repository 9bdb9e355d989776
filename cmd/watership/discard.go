package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/schemas/query"
)

// discard is what was asked for on the command line.
type discard struct {
	terminal
	selected selected
	file     string // of ids; "": none
	ids      []string
	reason   string
	yes      bool
}

func newDiscard(from *settings) *cobra.Command {
	var d discard
	cmd := &cobra.Command{
		Use:   "discard [QUERY]",
		Short: "Say that failures need nothing more, and why",
		Long: `discard takes failures off the list of failed: those that a query finds and that
are not resolved, or those with certain ids. Nothing is deleted: each gets an
event that says who decided so, when and why, and can still be replayed.`,
		Example: `  watership failed discard 'queue: orders and error.type: validation' --reason 'test orders' --yes
  watership failed discard --ids paid.txt --reason 'paid by hand' --yes`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			d.terminal = terminalOf(cmd)
			if err := d.validate(args); err != nil {
				return err
			}
			s, err := from.system(d.terminal)
			if err != nil {
				return err
			}
			node, err := d.selected.node(s, strings.Join(args, " "), d.in)
			if err != nil {
				return err
			}
			if d.ids, err = d.idsOf(); err != nil {
				return err
			}
			return s.discard(cmd.Context(), d, node)
		},
	}
	d.selected.addFlags(cmd)
	cmd.Flags().StringVar(&d.file, "ids", "", "file with ids of messages or events, one a line; - is standard input")
	cmd.Flags().StringVar(&d.reason, "reason", "", "why (required)")
	cmd.Flags().BoolVarP(&d.yes, "yes", "y", false, "discard without asking")
	return cmd
}

func (d discard) validate(args []string) error {
	switch {
	case strings.TrimSpace(d.reason) == "":
		return usagef("--reason is missing: expected a text that says why nothing more is to be done")
	case strings.TrimSpace(strings.Join(args, "")) == "" && d.file == "" && d.selected.dsl == "":
		return usagef("expected a query or --ids; '*' discards every failure there is")
	case !d.yes && (!isTerminal(d.in) || d.file == "-"):
		return usagef("discard asks first, and there is no terminal to ask: give --yes")
	}
	return nil
}

// idsOf reads the ids of a file, one a line.
func (d discard) idsOf() ([]string, error) {
	if d.file == "" {
		return nil, nil
	}
	text, err := readFile(d.file, d.in)
	if err != nil {
		return nil, usagef("--ids: %w", err)
	}
	ids := strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' || r == '\r' })
	for i, id := range ids {
		ids[i] = strings.TrimSpace(id)
	}
	if ids = slices.DeleteFunc(ids, func(id string) bool { return id == "" }); len(ids) == 0 {
		return nil, usagef("--ids %s has none", d.file)
	}
	return ids, nil
}

func (s system) discard(ctx context.Context, d discard, node query.Node) error {
	store, err := s.store(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	failures, err := s.failures(ctx, store)
	if err != nil {
		return err
	}
	ids, err := d.open(ctx, failures, node)
	if err != nil {
		return err
	}
	if len(ids) == 0 {
		return errors.New("no failure that is not resolved is among these")
	}
	if !d.yes && !d.confirm(len(ids)) {
		return errors.New("nothing was discarded")
	}
	discarded := 0
	err = s.publishing(ctx, "discard", func(publisher *rabbit.Publisher) error {
		for some := range slices.Chunk(ids, failuresAtOnce/2) {
			n, err := d.publish(ctx, store, publisher, s.topology, some)
			discarded += n
			if err != nil {
				return err
			}
		}
		return nil
	})
	fmt.Fprintf(d.out, "discarded %s\n", plural(discarded, "failure"))
	return err
}

// open collects the event ids of the failures; they alone are kept.
func (d discard) open(ctx context.Context, failures failures, node query.Node) ([]string, error) {
	if len(d.ids) == 0 {
		return eventIDs(failures.open(ctx, node))
	}
	var all []string
	for some := range slices.Chunk(d.ids, idsAtOnce) {
		var either []schemas.Among
		for _, field := range namingFields() {
			either = append(either, schemas.Among{Field: field, Values: some})
		}
		ids, err := eventIDs(failures.open(ctx, node, either...))
		if err != nil {
			return nil, err
		}
		all = append(all, ids...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

func eventIDs(facts func(func(schemas.Fact, error) bool)) ([]string, error) {
	var ids []string
	for fact, err := range facts {
		if err != nil {
			return nil, err
		}
		ids = append(ids, fact.EventID)
	}
	return ids, nil
}

func (d discard) confirm(failures int) bool {
	fmt.Fprintf(d.err, "Discard %s? [y/N] ", plural(failures, "failure"))
	answer, _ := bufio.NewReader(d.in).ReadString('\n')
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}

// publish says of each failure that it is discarded, and waits until the broker
// has all of it.
func (d discard) publish(ctx context.Context, store eventStore, publisher *rabbit.Publisher, topology schemas.Topology, ids []string) (confirmed int, err error) {
	var either query.Or
	for _, id := range ids {
		either = append(either, is("event.id", id))
	}
	var sent []*rabbit.Pending
	for e, err := range store.Events(ctx, schemas.Selection{Query: either, Order: schemas.BySequence}) {
		if err != nil {
			return 0, err
		}
		pending, err := publisher.Send(ctx, rabbit.Message{
			Exchange: topology.Events(), RoutingKey: string(schemas.Discarded),
			Publishing: schemas.WrapWithoutBody(e.Envelope, d.state(e, time.Now())),
		})
		if err != nil {
			return 0, err
		}
		sent = append(sent, pending)
	}
	for _, pending := range sent {
		if waited := pending.Wait(ctx); waited != nil {
			err = errors.Join(err, waited)
			continue
		}
		confirmed++
	}
	return confirmed, err
}

// state is that of the discarded event of a failure. Its id follows from the
// failure's, so that a repeat is the same document.
func (d discard) state(e schemas.Event, now time.Time) schemas.State {
	return schemas.State{
		EventID: discardID(e.EventID), Time: now, ReplayOf: e.EventID,
		Fingerprint: e.Fingerprint, Message: e.Message, Queue: e.Queue, Attempt: e.Attempt, FirstFailed: e.FirstFailed,
		Failure: schemas.Failure{Type: string(schemas.Discarded), Message: d.reason + " (" + operator() + ")"},
	}
}

func discardID(event string) string {
	const longest = 400 // bytes; an id may have 512
	if len(event) > longest {
		sum := sha256.Sum256([]byte(event))
		event = hex.EncodeToString(sum[:])
	}
	return "discarded:" + event
}

// operator is who runs the command, and where.
func operator() string {
	name := "somebody"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}
