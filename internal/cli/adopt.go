package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/adoptions"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/code"
	"github.com/watershipmq/watership/internal/render/wording"
)

// adoptArgs holds the arguments of `adopt`.
type adoptArgs struct {
	action
	adoptions.Request
	follow bool
}

func newAdopt(from *settings) *cobra.Command {
	var d adoptArgs
	cmd := &cobra.Command{
		Use:   "adopt QUEUE --as FORMAT",
		Short: "Take in the failed messages of other systems",
		Long: `Take in the messages of an error queue that another system filled. Each becomes a failure
of the queue in which it failed, with its error, stack trace and attempts: it can be
searched, replayed and discarded like any other. It leaves the error queue once the broker
has confirmed its report. Messages of another form stay.

Formats:
` + formatList() + `
The exchange and routing key of a failure are a claim of whoever filled the queue. "replay"
sends to them if the store knows that the message was published there, and
"replay --to-failed-queue" sends to the queue.

"watership serve" must run, or have run, with the role retry. With --server the server takes
the messages in, and Ctrl-C cancels that. An audited event has the operator and the reason.

--dry-run shows the first 1,000 messages and returns them to the queue. --expect is about
all that are ready in the queue, up to --limit.`,
		Example: `  watership adopt orders_error --as masstransit --dry-run
  watership adopt orders.failed --as spring --queue orders --yes
  watership adopt error --as nservicebus --follow --yes`,
		Args:              exactArgs(1, "a queue"),
		ValidArgsFunction: from.completeNames(queues),
		RunE: func(cmd *cobra.Command, args []string) error {
			d.Queue = args[0]
			if _, err := adoptions.FormatNamed(d.Format); err != nil {
				return usagef("--as: %w", err)
			}
			switch {
			case d.Limit < 0:
				return usagef("--limit is %d: expected a number of messages, or 0 for all", d.Limit)
			case d.dryRun && d.follow:
				return usagef("--dry-run and --follow exclude each other")
			case d.follow && d.expect != nil:
				return usagef("--expect and --follow exclude each other: new messages are taken in, too")
			}
			if err := d.read(from, cmd, "adopt"); err != nil {
				return err
			}
			return from.withSystem(cmd, d.run)
		},
	}
	cmd.Flags().StringVar(&d.Format, "as", "", "format of the failures (required)")
	addNonEmpty(cmd.Flags(), &d.FailedQueue, "queue", "queue in which the messages failed, also where they name another; default: the one that each names")
	cmd.Flags().IntVar(&d.Limit, "limit", 0, "maximum number of messages; 0: those that are in the queue")
	cmd.Flags().BoolVar(&d.follow, "follow", false, "take in each new message until interrupted")
	d.addGuard(cmd)
	d.addFlags(cmd, "why")
	_ = cmd.MarkFlagRequired("as")
	_ = cmd.RegisterFlagCompletionFunc("as", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		var names []string
		for _, format := range adoptions.Formats() {
			names = append(names, format.Name)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	})
	return cmd
}

func formatList() string {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, format := range adoptions.Formats() {
		fmt.Fprintf(table, "  %s\t%s\n", format.Name, format.From)
	}
	_ = table.Flush() // a Builder does not fail
	return b.String()
}

func (d *adoptArgs) run(ctx context.Context, sys backend) error {
	d.Reason, d.Expect = d.reason, d.expect
	if d.yes && !d.dryRun { // a quorum queue counts each delivery, so nothing is read before
		text, body, err := d.adopt(withOperator(ctx, d.operator), sys)
		return d.finish(text, body, err)
	}
	return d.action.run(ctx, flow{
		preview: func(ctx context.Context) (found, error) {
			in := d.Request
			in.Expect = nil
			first, err := adoptions.PreviewAdoption.Call(ctx, sys, adoptions.PreviewInput{Body: adoptions.AdoptionRequest(in)})
			if err != nil {
				return found{}, err
			}
			matched := first.Body.Matched
			if !d.follow {
				d.Expect, d.Limit = &matched, matched // those that come later stay
			}
			preview := found{matched, d.text("found", first.Body.Result), first.Body, d.check(matched, "message", ""), fmt.Sprintf("Take in %s?", wording.Plural(matched, "message"))}
			if first.Body.Failures == 0 && !d.dryRun && preview.refused == nil {
				preview.refused = fmt.Errorf("queue %q has no message to take in", d.Queue)
			}
			return preview, nil
		},
		change: func(ctx context.Context) (string, any, error) { return d.adopt(ctx, sys) },
	})
}

func (d *adoptArgs) adopt(ctx context.Context, sys backend) (text string, body any, err error) {
	var done adoptions.Result
	if d.follow {
		if done, err = followFailures(ctx, sys, d.Request); ctx.Err() != nil {
			err = nil
		}
	} else {
		done, err = adopt(ctx, sys, d.Request)
	}
	if err == nil || done.Failures > 0 {
		text, body = d.text("took in", done), done
	}
	if err == nil && done.Failures == 0 && done.Unreadable > 0 && !d.follow {
		err = errors.New("nothing was taken in")
	}
	return text, body, err
}

// followFailures takes in each new message of an error queue until ctx ends.
func followFailures(ctx context.Context, sys backend, r adoptions.Request) (done adoptions.Result, err error) {
	l, err := inCommand(sys, "--follow", "run it where amqp.url is configured")
	if err != nil {
		return done, err
	}
	err = l.recorded(ctx, func(ctx context.Context) (err error) {
		done, err = adoptions.Service{System: l.System}.Follow(ctx, r)
		return err
	})
	return done, err
}

const (
	adoptionPoll  = 300 * time.Millisecond
	cancelTimeout = 15 * time.Second
)

// adopt starts an adoption and waits for its end. The end of ctx cancels it.
func adopt(ctx context.Context, sys operation.Via, r adoptions.Request) (adoptions.Result, error) {
	started, err := adoptions.StartAdoption.Call(ctx, sys, adoptions.StartInput{Body: adoptions.AdoptionRequest(r)})
	if err != nil {
		return started.Body.Result, err
	}
	named := adoptions.IDInput{ID: started.Body.ID}
	a, err := awaitAdoption(ctx, sys, named, started.Body)
	if ctx.Err() == nil {
		return a.Result, err
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
	defer cancel()
	_, err = adoptions.CancelAdoption.Call(end, sys, adoptions.CancelInput{IDInput: named})
	if err != nil && !isRefused(err, code.HasEnded) {
		return a.Result, fmt.Errorf("the adoption may go on in the server, as it was not cancelled: %w", err)
	}
	a, err = awaitAdoption(end, sys, named, a)
	if a.State == adoptions.Cancelled {
		err = nil
	}
	return a.Result, errors.Join(ctx.Err(), err)
}

// awaitAdoption reads an adoption until it has ended. Its error says why it ended before its
// end.
func awaitAdoption(ctx context.Context, sys operation.Via, named adoptions.IDInput, a adoptions.Adoption) (adoptions.Adoption, error) {
	for a.State == adoptions.Running {
		if err := backoff.Sleep(ctx, adoptionPoll); err != nil {
			return a, err
		}
		next, err := adoptions.GetAdoption.Call(ctx, sys, named)
		if err != nil {
			return a, err
		}
		a = next.Body
	}
	if a.State != adoptions.Done {
		return a, errors.New(a.Problem)
	}
	return a, nil
}

func (d *adoptArgs) text(verb string, r adoptions.Result) string {
	var page strings.Builder
	fmt.Fprintf(&page, "%s %s\n", verb, wording.Plural(r.Failures, "failure"))
	if len(r.Groups) > 0 {
		table := tabwriter.NewWriter(&page, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "  COUNT\tQUEUE\tEXCHANGE\tERROR TYPE")
		for _, g := range r.Groups {
			fmt.Fprintf(table, "  %d\t%s\t%s\t%s\n", g.Failures, terminal.Cell(g.Queue, 60), terminal.Cell(g.Exchange, 40), terminal.Cell(g.ErrorType, 80))
		}
		_ = table.Flush() // a Builder does not fail
	}
	if r.Unreadable > 0 {
		stay := "stay"
		if r.Unreadable == 1 {
			stay = "stays"
		}
		fmt.Fprintf(&page, "%s cannot be read as %s and %s in queue %s: %s\n",
			wording.Plural(r.Unreadable, "message"), d.Format, stay, terminal.Cell(d.Queue, 120), terminal.Cell(r.Cause, 300))
	}
	return page.String()
}
