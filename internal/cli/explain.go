package cli

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/render/wording"
)

func newExplain(from *settings) *cobra.Command {
	var failure string
	var request messages.Request
	var format outputFormat
	cmd := &cobra.Command{
		Use:   "explain (ID | --error TYPE:TEXT --queue QUEUE)",
		Short: "Explain why and when a failed message is tried again",
		Long: `Explain the latest failure of a message, or an error that is given: the class of the
error, the rule that chooses it, the attempt, the delay, and the attempts that would
follow if each failed at once. ID is one of those that show takes. Class, rule and
the attempts after the next are those of the current configuration. An outage, which
uses no attempts, and jitter are left out.`,
		Example: `  watership explain 6f1c0b9e
  watership explain --error 'StockError: no stock of item 42' --queue orders
  watership explain --error 'timed out' --queue orders --header x-tier=gold --attempt 3 -o json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if request.Error = messages.ParseError(failure); len(args) > 0 {
				request.ID = args[0]
			}
			if cmd.Flags().Changed("attempt") && request.Attempt == 0 {
				return usagef("attempt 0: expected 1 to %d", messages.MaxAttempt)
			}
			if err := request.Check(); err != nil {
				return usagef("%w", err)
			}
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error {
				explained, err := messages.ExplainFailure.Call(ctx, sys, messages.ExplainInput{
					ID: request.ID, Queue: request.Queue, Type: request.Error.Type, Text: request.Error.Text, Class: request.Class, Attempt: request.Attempt, Headers: request.Headers,
				})
				if err != nil {
					return err
				}
				list := explained.Body.Explanations
				to := from.printer(cmd)
				return writeItems(to.Out, format, list, func() error { return to.explanations(list, request.ID) })
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&failure, "error", "", "the error, as TYPE:TEXT or TEXT")
	flags.StringVar(&request.Queue, "queue", "", "queue of the failure (default: the queue that failed last)")
	flags.StringVar(&request.Class, "class", "", "class that the error names (default: rules choose it)")
	flags.IntVar(&request.Attempt, "attempt", 0, "attempt that fails with the error (default: the first)")
	flags.StringArrayVar(&request.Headers, "header", nil, "header NAME=VALUE of the message that has the error")
	format.addFlag(cmd, "text", "json", "ndjson")
	return cmd
}

// explanations prints the explanations of the messages with an id. Several have their
// fingerprints as names.
func (p printer) explanations(list []messages.Explanation, id string) error {
	if len(list) == 1 {
		list[0].Message = id
	}
	page := page{screen: p.screen}
	for i, explanation := range list {
		if i > 0 {
			page.WriteString("\n")
		}
		page.explanation(explanation)
	}
	_, err := p.Out.Write(page.Bytes())
	return err
}

func (p *page) explanation(ex messages.Explanation) {
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(p, "%-9s %s\n", name, terminal.Cell(value, terminal.MaxCellWidth))
		}
	}
	field("message", ex.Message)
	field("queue", ex.Queue)
	switch {
	case ex.Process != "":
		field("", "process "+ex.Process+" handles it by a route that is not in this configuration,")
		field("", "so that the default policy is shown (ask that process for its own with --server)")
	case !ex.Route:
		field("", "no route has this queue: the default policy counts")
	}
	field("error", ex.Error.Text)
	field("type", ex.Error.Type)
	field("class", chosenBy(ex.Class, ex.Rule))
	if was := ex.Recorded; was != nil && (was.Class != ex.Class || was.Rule != ex.Rule) {
		field("", "recorded as "+chosenBy(was.Class, was.Rule))
	}
	field("attempt", fmt.Sprintf("%d of %d failed at %s", ex.Attempt, ex.Attempts, terminal.Time(ex.Failed)))
	field("then", nextStep(ex))
	if len(ex.Schedule) == 0 {
		return
	}
	p.title(p.screen.TimesTitle("schedule"))
	for _, attempt := range ex.Schedule {
		fmt.Fprintf(p, "  attempt %-4d %s  after %s\n", attempt.Number, terminal.TimeCell(attempt.Time), wording.Duration(seconds(attempt.Delay)))
	}
	if !ex.GivenUp.IsZero() {
		fmt.Fprintf(p, "  given up     %s\n", terminal.TimeCell(ex.GivenUp))
	}
}

// chosenBy returns a class with the rule that chose it.
func chosenBy(class, rule string) string {
	class = cmp.Or(class, "none")
	if rule != "" {
		class += ", by rule " + rule
	}
	return class
}

func nextStep(ex messages.Explanation) string {
	switch ex.Action {
	case "retry":
		return "retried after " + wording.Duration(seconds(ex.Delay))
	case "defer":
		return "retried after " + wording.Duration(seconds(ex.Delay)) + ", without using an attempt"
	case "poison":
		if ex.Reason != "" {
			return "poison: " + ex.Reason
		}
		return "poison"
	}
	return ex.Action
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond)
}
