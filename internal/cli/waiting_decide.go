package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/cli/client"
	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/waiting"
	"github.com/watershipmq/watership/internal/render/wording"
)

// waitingDecision holds the arguments of `waiting now`, `waiting postpone` and `waiting cancel`.
type waitingDecision struct {
	terminal.Streams
	waiting.Decision
	filter filter
	file   string // of ids; "": none
	yes    bool

	pause time.Duration // of postpone; 0: --until has the time
}

func newWaitingNow(from *settings) *cobra.Command {
	d := &waitingDecision{Decision: waiting.Decision{Action: waiting.Now}}
	return d.command(from, &cobra.Command{
		Use:   "now [QUERY]",
		Short: "Let the next attempt of waiting messages follow at once",
		Long: `Let the next attempt of waiting messages follow at once: of those that match a query, or
that are listed by id. Their attempts count as if they had waited. A message that is due
in the meantime is left out, and no message is handled twice or lost because of this.`,
		Example: `  watership waiting now 'queue: orders and error.type: timeout' --reason 'the database is back'`,
	})
}

func newWaitingPostpone(from *settings) *cobra.Command {
	d := &waitingDecision{Decision: waiting.Decision{Action: waiting.Postpone}}
	cmd := d.command(from, &cobra.Command{
		Use:   "postpone [QUERY]",
		Short: "Postpone the next attempt of waiting messages",
		Long: `Postpone the next attempt of waiting messages, by up to 30 days from now: of those that
match a query, or that are listed by id. The attempt follows at that time or up to a second
later, also if it was to follow later before.`,
		Example: `  watership waiting postpone 'queue: invoices' --for 2h --reason 'maintenance'
  watership waiting postpone 'queue: invoices' --until '2026-05-04 08:00' --reason 'maintenance' --yes`,
	})
	addDuration(cmd.Flags(), &d.pause, "for", 0, "time from now until the next attempt, such as 90m or 2d")
	cmd.Flags().Var(instant{&d.NotBefore}, "until", "time of the next attempt, such as 2026-05-04T06:00:00Z, '2026-05-04 08:00' or now+1d/d")
	return cmd
}

func newWaitingCancel(from *settings) *cobra.Command {
	d := &waitingDecision{Decision: waiting.Decision{Action: waiting.Cancel}}
	return d.command(from, &cobra.Command{
		Use:   "cancel [QUERY]",
		Short: "Cancel the further attempts of waiting messages",
		Long: `Cancel the further attempts of waiting messages: of those that match a query, or that are
listed by id. Each gets a discarded event with the operator and the reason, and can be
replayed from the store.`,
		Example: `  watership waiting cancel 'queue: orders and headers.tenant: test' --reason 'test orders' --yes`,
	})
}

func (d *waitingDecision) command(from *settings, cmd *cobra.Command) *cobra.Command {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d.Streams = streamsOf(cmd)
		if err := d.validate(args); err != nil {
			return err
		}
		return from.withSystem(cmd, func(ctx context.Context, sys backend) error {
			node, err := d.filter.node(sys, strings.Join(args, " "), d.In)
			if err != nil {
				return err
			}
			var ids []string
			if d.file != "" {
				if ids, err = readIDs(d.file, d.In); err != nil {
					return err
				}
			}
			return d.run(ctx, sys, node, ids)
		})
	}
	d.filter.addFlags(cmd)
	addNonEmpty(cmd.Flags(), &d.file, "ids", "file with message or event ids, one per line; - reads standard input")
	cmd.Flags().StringVar(&d.Reason, "reason", "", "why (required)")
	cmd.Flags().BoolVarP(&d.yes, "yes", "y", false, "skip the confirmation prompt")
	return cmd
}

func (d *waitingDecision) validate(args []string) error {
	switch {
	case strings.TrimSpace(d.Reason) == "":
		return usagef("--reason is required")
	case strings.TrimSpace(strings.Join(args, "")) == "" && d.file == "" && d.filter.dsl == "":
		return usagef("expected a query or --ids; '*' selects every message that waits")
	case d.file == "-" && d.filter.dsl == "-":
		return usagef("--ids and --dsl cannot both be standard input: give one of them a file")
	case !d.yes && (!terminal.IsTerminal(d.In) || d.file == "-" || d.filter.dsl == "-"):
		return usagef("waiting %s asks first, and there is no terminal to ask: give --yes", d.Action)
	}
	if d.Action != waiting.Postpone {
		return nil
	}
	if (d.pause == 0) == d.NotBefore.IsZero() {
		return usagef("expected either --for or --until")
	}
	if d.pause != 0 {
		d.NotBefore = time.Now().Add(d.pause)
	}
	if err := d.Check(time.Now()); err != nil {
		return usagef("%w", err)
	}
	return nil
}

func (d *waitingDecision) run(ctx context.Context, sys backend, node kql.Node, ids []string) error {
	node, err := client.AbsoluteTimes(node)
	if err != nil {
		return err
	}
	in := waiting.DecideInput{Body: waiting.WaitingDecision{IDs: ids, Action: d.Action, NotBefore: d.NotBefore, Reason: d.Reason, DryRun: true}}
	if in.Body.Filter, in.Body.DSL, err = bodyFilter(sys, node, len(ids) > 0); err != nil {
		return err
	}
	preview, err := waiting.DecideWaiting.Call(ctx, sys, in)
	if err != nil {
		return err
	}
	found := preview.Body
	if err := printUnknownIDs(d.Out, found.Unknown); err != nil {
		return err
	}
	if found.Matched == 0 {
		return errors.New("no waiting message matches")
	}
	if err := printQueues(d.Out, "wait for", found.Queues); err != nil {
		return err
	}
	if agreed, err := d.confirm(ctx, found.Matched); !agreed {
		return err
	}
	in.Body.DryRun, in.Body.AtMost, in.Body.UpTo = false, &found.Matched, found.UpTo
	decided, err := waiting.DecideWaiting.Call(ctx, sys, in)
	done := decided.Body
	if done.Decided > 0 || err == nil {
		fmt.Fprintf(d.Out, "%s %s\n", d.verb(), wording.Plural(done.Decided, "message"))
	}
	if done.Gone > 0 {
		fmt.Fprintf(d.Out, "%s did not wait any more\n", wording.Plural(done.Gone, "message"))
	}
	if err == nil && done.Missing > 0 {
		fmt.Fprintf(d.Out, "the store does not have %s of these yet: see watership waiting, and run watership serve\n", wording.Plural(done.Missing, "event"))
	}
	if err == nil && done.Decided == 0 {
		return errors.New("no message was changed")
	}
	return err
}

// verb begins the result of a decision.
func (d *waitingDecision) verb() string {
	switch d.Action {
	case waiting.Now:
		return "retried"
	case waiting.Postpone:
		return "postponed"
	}
	return "cancelled"
}

func (d *waitingDecision) confirm(ctx context.Context, messages int) (bool, error) {
	if d.yes {
		return true, nil
	}
	question := map[waiting.Action]string{
		waiting.Now: "Retry %s now?", waiting.Postpone: "Postpone %s to " + terminal.Second(d.NotBefore) + "?", waiting.Cancel: "Cancel the attempts of %s?",
	}[d.Action]
	yes, err := d.Ask(ctx, fmt.Sprintf(question, wording.Plural(messages, "message")))
	if err == nil && !yes {
		err = errors.New("nothing was changed")
	}
	return yes, err
}
