package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/approvals"
	"github.com/watershipmq/watership/internal/render/wording"
)

func newApprovals(from *settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "approvals",
		Short: "List, approve and refuse actions that wait for a second person",
		Long: `The rules approvals.rules of a server say which actions wait for a second person, such as
replays of more than 1,000 messages. Such an action is planned and kept; it is done when somebody
else approves it: for exactly the messages that were counted, or not at all.`,
		Args: rejectUnknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newApprovalsList(from), newDecision(from, "approve", "Approve an action of somebody else, and do it"), newDecision(from, "refuse", "Refuse an action, or withdraw your own"))
	return cmd
}

func newApprovalsList(from *settings) *cobra.Command {
	var format outputFormat
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the actions that wait for a second person, or have waited",
		Example: "  watership approvals list\n  watership approvals list -o json",
		Args:    exactArgs(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error {
				found, err := approvals.ListApprovals.Call(ctx, sys, struct{}{})
				if err != nil {
					return err
				}
				to := from.printer(cmd)
				return writeItems(to.Out, format, found.Body.Approvals, func() error { return printApprovals(to, found.Body.Approvals) })
			})
		},
	}
	format.addFlag(cmd, "table", "json", "ndjson")
	return cmd
}

// printApprovals prints a table.
func printApprovals(p printer, list []approvals.Approval) error {
	if len(list) == 0 {
		return p.printf("no action waits for an approval, or has waited")
	}
	t := terminal.NewTable(p.Out, p.screen, terminal.Column{Title: "ID", Fixed: true}, terminal.Column{Title: "STATE", Fixed: true}, terminal.Column{Title: "ACTION", Fixed: true},
		terminal.Column{Title: "MATCHED", Fixed: true}, terminal.Column{Title: "TARGETS"}, terminal.Column{Title: "BY"},
		terminal.Column{Title: "UNTIL", Fixed: true, Times: true}, terminal.Column{Title: "DECIDED BY", DropOrder: 2}, terminal.Column{Title: "REASON", DropOrder: 1})
	for _, a := range list {
		err := t.Row(a.ID, string(a.State), string(a.Action), fmt.Sprint(a.Matched), wording.OneLine(strings.Join(a.Targets, ", ")), wording.OneLine(a.By),
			terminal.SecondCell(a.Expires), wording.OneLine(a.Decider), wording.OneLine(a.Reason))
		if err != nil {
			return err
		}
	}
	return t.Flush()
}

// newDecision returns the command of a decision.
func newDecision(from *settings, verb, short string) *cobra.Command {
	var why string
	cmd := &cobra.Command{
		Use:     verb + " ID",
		Short:   short,
		Example: "  watership approvals " + verb + " ABCDEFGHIJKL --reason 'agreed with the shop'",
		Args:    exactArgs(1, "the id of an approval"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error {
				if _, isLocal := sys.(*local); isLocal && verb == "approve" {
					return usagef("a server does what is approved: give its address with --server")
				}
				in := approvals.DecideInput{ID: args[0], Body: approvals.ApprovalDecision{Decision: verb, Reason: why}}
				decided, err := approvals.DecideApproval.Call(ctx, sys, in)
				if err != nil {
					return err
				}
				a := decided.Body
				text := fmt.Sprintf("%s of %s is %s", a.Action, terminal.Cell(a.By, 100), a.State)
				if a.Result != "" {
					text += ": " + terminal.Cell(wording.OneLine(a.Result), 2000)
				}
				return from.printer(cmd).printf("%s", text)
			})
		},
	}
	cmd.Flags().StringVar(&why, "reason", "", "why; refuse needs it")
	return cmd
}
