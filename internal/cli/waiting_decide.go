package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/waiting"
	"github.com/watershipmq/watership/internal/render/wording"
)

// waitingDecision holds the arguments of `waiting now`, `waiting postpone` and `waiting cancel`.
type waitingDecision struct {
	action
	waiting.Decision
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
		query := strings.Join(args, " ")
		if err := d.validate(query); err != nil {
			return err
		}
		if err := d.read(from, cmd, "waiting "+string(d.Action)); err != nil {
			return err
		}
		return from.withSystem(cmd, func(ctx context.Context, sys backend) error { return d.run(ctx, sys, query) })
	}
	d.addSelection(cmd)
	d.addGuard(cmd)
	d.addFlags(cmd, "why (required)")
	return cmd
}

func (d *waitingDecision) validate(query string) error {
	if err := d.needReason(); err != nil {
		return err
	}
	if !d.isSelective(query) {
		return usagef("expected a query or --ids; '*' selects every message that waits")
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
	if err := d.CheckTime(time.Now()); err != nil {
		return usagef("%w", err)
	}
	return nil
}

func (d *waitingDecision) run(ctx context.Context, sys backend, query string) (err error) {
	in := waiting.DecideInput{Body: waiting.WaitingDecision{Action: d.Action, NotBefore: d.NotBefore}}
	if in.Body.Choice, err = d.choice(sys, query, false); err != nil {
		return err
	}
	verb, question := d.phrases()
	gone := 0
	return d.operate(ctx, &in.Body.Choice, &in.Body.Bounds, actionTexts{
		unit: "message", nothing: "no waiting message matches", place: "wait for", missing: "see watership waiting, and run watership serve",
		question: func(found answer) string { return fmt.Sprintf(question, wording.Plural(found.Matched, "message")) },
		result: func(done answer) (text string) {
			if done.Matched > 0 {
				text = fmt.Sprintf("%s %s\n", verb, wording.Plural(done.Done, "message"))
			}
			if gone > 0 {
				text += fmt.Sprintf("%s did not wait any more\n", wording.Plural(gone, "message"))
			}
			return text
		},
	}, func(ctx context.Context) (answer, error) {
		out, err := waiting.DecideWaiting.Call(ctx, sys, in)
		if err == nil && !in.Body.DryRun && out.Body.Done == 0 {
			err = errors.New("no message was changed")
		}
		gone = out.Body.Gone
		return answer{out.Body.Outcome, nil, out.Body}, err
	})
}

// phrases returns the beginning of the result of a decision, and its question.
func (d *waitingDecision) phrases() (verb, question string) {
	switch d.Action {
	case waiting.Now:
		return "retried", "Retry %s now?"
	case waiting.Postpone:
		return "postponed", "Postpone %s to " + terminal.Second(d.NotBefore) + "?"
	}
	return "cancelled", "Cancel the attempts of %s?"
}
