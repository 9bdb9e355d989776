package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/render/columns"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/schemas"
)

// newFailedShow returns `failed show`.
func newFailedShow(from *settings) *cobra.Command {
	var format outputFormat
	var failure string
	cmd := &cobra.Command{
		Use:   "show GROUP",
		Short: "Show a group of failures, its newest failure and its history",
		Long: `Show a group of failures: its state and trend, its newest unresolved failure with the stack, and
what operators did about it: notes, decisions, discards, and replays with their outcomes.

--failure shows another failure of the group, by the id of its event.`,
		Example: "  watership failed show k3f7q2xa",
		Args:    exactArgs(1, "a group"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error {
				g, err := readGroup(ctx, sys, args[0], failure)
				if err != nil {
					return err
				}
				to := failurePrinter{from.printer(cmd)}
				if format.is("json") {
					return terminal.WriteIndentedJSON(to.Out, g)
				}
				return to.group(g)
			})
		},
	}
	addNonEmpty(cmd.Flags(), &failure, "failure", "event id of the failure to show (default: the newest)")
	format.addFlag(cmd, "text", "json")
	return cmd
}

// shownGroup is a group with one of its failures and its history.
type shownGroup struct {
	failures.FailureGroup
	Failure failures.GroupFailure `json:"failure"`
	History failures.GroupHistory `json:"history"`
}

func readGroup(ctx context.Context, sys backend, id, failure string) (g shownGroup, err error) {
	group, err := failures.GetFailureGroup.Call(ctx, sys, failures.GroupInput{Group: id})
	if err != nil {
		return g, err
	}
	one, err := failures.GetGroupFailure.Call(ctx, sys, failures.GroupFailureInput{Group: id, ID: failure})
	if err != nil {
		return g, err
	}
	done, err := failures.GetGroupHistory.Call(ctx, sys, failures.GroupInput{Group: id})
	return shownGroup{group.Body, one.Body, done.Body}, err
}

func (p failurePrinter) group(g shownGroup) error {
	pair := func(name, value string) {
		if value != "" {
			fmt.Fprintf(p.Out, "%-9s  %s\n", name, terminal.Cell(value, 0))
		}
	}
	pair("group", g.ID)
	pair("queue", g.Queue)
	pair("class", g.Class)
	pair("type", g.Type)
	pair("error", g.Group.Group)
	pair("failures", fmt.Sprint(g.Count))
	pair("last hour", fmt.Sprintf("%d, %d in the hour before", g.LastHour, g.HourBefore))
	if g.Count > 0 {
		pair("first", terminal.Second(g.First))
		pair("last", terminal.Second(g.Last))
		pair("example", g.Example)
	}
	switch {
	case g.Regressed:
		pair("regressed", "since it was resolved")
	case g.New:
		pair("new", "first failed less than a day ago")
	}
	if g.Escalating {
		pair("trend", "escalating")
	}
	pair("assignee", g.Assignee)
	if m := g.Muted; m != nil {
		pair("muted", fmt.Sprintf("%s by %s: %s", (muteEnd(m) + ",")[1:], m.By, m.Reason))
	}
	if r := g.Resolved; r != nil {
		pair("resolved", fmt.Sprintf("%s by %s: %s", terminal.Second(r.Time), r.By, r.Reason))
	}
	pair("query", g.Query)
	if err := p.failure(g.Failure); err != nil {
		return err
	}
	return p.history(g.History)
}

// failure prints a failure of a group.
func (p failurePrinter) failure(f failures.GroupFailure) error {
	e, err := schemas.ParseDocument(f.Event)
	if err != nil {
		return fmt.Errorf("reading the failure: %w", err)
	}
	place := fmt.Sprintf("%d of %d unresolved, newest first", f.Place, f.Of)
	if f.Place == 0 {
		place = "resolved"
	}
	fmt.Fprintf(p.Out, "\nfailure    %s, attempt %d of message %s, at %s\n", place, e.Attempt, terminal.Cell(columns.MessageID(e), 0), terminal.Second(e.Time))
	fmt.Fprintf(p.Out, "event      %s\n%s\n", terminal.Cell(e.EventID, 0), terminal.SafeLines(e.Failure.Message))
	if stack := e.Failure.Stack; stack != "" {
		fmt.Fprintln(p.Out, terminal.SafeLines(stack))
	}
	return nil
}

// history prints what operators did about a group.
func (p failurePrinter) history(h failures.GroupHistory) error {
	if len(h.Entries) > 0 {
		fmt.Fprintln(p.Out, "\nhistory")
	}
	for _, e := range h.Entries {
		by := ""
		if e.By != "" {
			by = " by " + e.By
		}
		text := ""
		if e.Text != "" {
			text = ": " + e.Text
		}
		fmt.Fprintf(p.Out, "%s  %s\n", terminal.Second(e.Time), terminal.Cell(entryText(e)+by+text, 0))
	}
	if h.More {
		return p.printf("there is more")
	}
	return nil
}

// entryText says what an operator did.
func entryText(e failures.HistoryEntry) string {
	switch r := e.Replay; {
	case r != nil:
		return fmt.Sprintf("replayed %s in job %s: %d handled, %d failed again, %d pending", wording.Plural(r.Sent, "message"), r.Job, r.Handled, r.Failed, r.Pending)
	case e.What == failures.Assigned:
		return "assigned to " + e.Assignee
	case e.What == failures.Muted:
		return "muted" + muteEnd(&failures.Mute{Until: e.Until, Count: e.Count})
	case e.Failures > 0:
		return fmt.Sprintf("%s %s", e.What, wording.Plural(e.Failures, "failure"))
	}
	return string(e.What)
}
