package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/operate/failures/compare"
	"github.com/watershipmq/watership/internal/render/wording"
)

// newFailedWhy returns `failed why`.
func newFailedWhy(from *settings) *cobra.Command {
	var format outputFormat
	var in failures.WhyInput
	cmd := &cobra.Command{
		Use:   "why GROUP|ID",
		Short: "Find what distinguishes a group of failures from handled messages",
		Long: `Compare the failures of a group with messages that the same queue handled in the same time,
and list what more of the failures have than chance explains: headers, fields of a JSON body,
publishers (app_id), exchanges, routing keys, sizes, and the time. With an id of a message,
the group of its last failure is meant.

Up to 1,000 failures and 1,500 handled messages are compared, as samples of all. The counts
are of all messages; those of fields of bodies and of thresholds are of the samples, where the
store cannot search them. A condition is listed if it explains at least a tenth of the failures,
and only if a comparison without any cause would find one in at most 1 of 1,000 cases.`,
		Example: `  watership failed why k3f7q2xa
  watership failed why order-7 --since 12h -o json`,
		Args: exactArgs(1, "a group or an id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			in.Of = args[0]
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error {
				found, err := failures.ExplainFailures.Call(ctx, sys, in)
				if err != nil {
					return err
				}
				to := failurePrinter{from.printer(cmd)}
				if format.is("json") {
					return terminal.WriteIndentedJSON(to.Out, found.Body)
				}
				return to.why(found.Body)
			})
		},
	}
	cmd.Flags().StringVar(&in.Since, "since", "", "compare only messages of this time, such as 15m, 1h30m or 7d (default: from a day before the first failure)")
	format.addFlag(cmd, "text", "json")
	return cmd
}

func (p failurePrinter) why(w failures.Why) error {
	pair := func(name, value string) { fmt.Fprintf(p.Out, "%-9s  %s\n", name, terminal.Cell(value, 0)) }
	pair("group", w.Group)
	pair("queue", w.Queue)
	pair("error", w.Kind.Group)
	if w.Outcome == failures.NoFailures {
		return p.printf("\n%s", outcomeText(w))
	}
	pair("failures", comparedOf(w.Failures, "failure")+", also resolved ones, from "+terminal.Second(w.From)+" to "+terminal.Second(w.To))
	pair("compared", "with "+comparedOf(w.Handled, "handled message")+" of the same time: "+wording.Plural(w.Conditions, "condition"))
	switch w.Bodies {
	case failures.BodiesHidden:
		pair("bodies", "left out, since you may not read them")
	case failures.BodiesUnknown:
		pair("bodies", "left out: the store has no bodies of the handled messages")
	}
	for i, c := range w.Causes {
		fmt.Fprintf(p.Out, "\n%d. %s\n", i+1, terminal.Cell(causeText(c), 0))
		pair("failed", countedText(c.Failures))
		pair("handled", countedText(c.Handled)+map[bool]string{true: ", at other times"}[c.Against == failures.OtherTime])
		if len(c.Same) > 0 {
			pair("same", sameText(c.Same))
		}
		if c.Failures.Query != "" {
			pair("query", c.Failures.Query)
		}
	}
	if text := outcomeText(w); text != "" {
		return p.printf("\n%s", text)
	}
	return nil
}

// comparedOf returns how many messages were compared, of how many.
func comparedOf(c failures.Compared, what string) string {
	if c.Read == c.Count {
		return wording.Plural(c.Count, what)
	}
	return fmt.Sprintf("%d of %s", c.Read, wording.Plural(c.Count, what))
}

func countedText(c failures.Counted) string {
	text := fmt.Sprintf("%d of %d (%s)", c.With, c.Of, wording.Percent(c.With, c.Of))
	if c.Sample {
		text += ", of those compared"
	}
	return text
}

func causeText(c failures.Cause) string {
	if c.Test == compare.Within {
		return "from " + terminal.Second(c.Begin) + " to " + terminal.Second(c.End)
	}
	return conditionText(c.Condition)
}

// conditionText describes a condition.
func conditionText(c failures.Condition) string {
	switch c.Test {
	case compare.Exists:
		return c.Field + " has a value"
	case compare.Missing:
		return c.Field + " is missing"
	case compare.AtLeast:
		return c.Field + " is " + c.Value + " or more"
	case compare.AtMost:
		return c.Field + " is " + c.Value + " or less"
	}
	return c.Field + " is " + c.Value
}

// sameText lists conditions that the same messages fulfil, but for most of them if there are many.
func sameText(same []failures.Condition) string {
	const most = 5
	var texts []string
	for _, c := range same[:min(len(same), most)] {
		texts = append(texts, conditionText(c))
	}
	if more := len(same) - most; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, "; ")
}

// outcomeText is why nothing was found.
func outcomeText(w failures.Why) string {
	switch w.Outcome {
	case failures.Nothing:
		return "nothing distinguishes them: no condition holds for more failures than handled messages, beyond chance"
	case failures.NoFailures:
		return "the group has no failure in that time"
	case failures.FewFailures:
		return "too few failures to say what distinguishes them"
	case failures.NoneHandled:
		return "queue " + terminal.Cell(w.Queue, 0) + " handled no messages in that time: there is nothing to compare them with"
	}
	return ""
}
