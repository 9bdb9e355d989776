package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/operate/failures"
)

// newFailedAssign returns `failed assign`.
func newFailedAssign(from *settings) *cobra.Command {
	change := failures.Change{Decision: failures.Assigned}
	cmd := &cobra.Command{
		Use:     "assign GROUP USER",
		Short:   "Assign a group of failures to somebody",
		Long:    `Assign a group of failures, by its name in watership failed, to somebody: any name.`,
		Example: `  watership failed assign k3f7q2xa ada`,
		Args:    exactArgs(2, "a group and a name"),
	}
	addReason(cmd, &change.Reason, "why")
	return from.decides(cmd, func(args []string) (failures.Change, error) {
		change.Assignee = args[1]
		return change, nil
	})
}

// newFailedUnassign returns `failed unassign`.
func newFailedUnassign(from *settings) *cobra.Command {
	return from.ends(failures.Unassigned, &cobra.Command{
		Use: "unassign GROUP", Short: "Assign a group of failures to nobody",
		Example: `  watership failed unassign k3f7q2xa`,
	})
}

// newFailedMute returns `failed mute`.
func newFailedMute(from *settings) *cobra.Command {
	change := failures.Change{Decision: failures.Muted}
	var pause time.Duration
	cmd := &cobra.Command{
		Use:   "mute GROUP",
		Short: "Leave a group of failures out of the list and of alerts, for a time",
		Long: `Leave a group of failures out of watership failed and of alerts about groups, up to a
time or to the Nth further failure, with which it is back by itself. With both, the
first ends it. A group that is resolved is not muted any more.`,
		Example: `  watership failed mute k3f7q2xa --for 2h --reason 'the supplier is closed'
  watership failed mute k3f7q2xa --until '2026-05-04 08:00' --reason 'fixed by the release of Monday'
  watership failed mute k3f7q2xa --count 100 --reason 'a few are expected'`,
		Args: exactArgs(1, "a group"),
	}
	addDuration(cmd.Flags(), &pause, "for", 0, "time from now until the group is back, such as 90m or 2d")
	cmd.Flags().Var(instant{&change.Until}, "until", "time at which the group is back, such as 2026-05-04T06:00:00Z, '2026-05-04 08:00' or now+1d/d")
	cmd.Flags().IntVar(&change.Count, "count", 0, "the group is back with this further failure: 2 with the second")
	addReason(cmd, &change.Reason, "why (required)")
	return from.decides(cmd, func([]string) (failures.Change, error) {
		switch {
		case cmd.Flags().Changed("for") && pause == 0:
			return change, usagef("--for must be more than 0")
		case cmd.Flags().Changed("count") && change.Count == 0:
			return change, usagef("--count must be more than 0")
		case pause != 0 && !change.Until.IsZero():
			return change, usagef("--for and --until cannot be combined")
		case pause != 0:
			change.Until = time.Now().Add(pause)
		}
		switch {
		case strings.TrimSpace(change.Reason) == "":
			return change, usagef("--reason is required")
		case change.Until.IsZero() && change.Count == 0:
			return change, usagef("expected --for, --until or --count")
		}
		return change, nil
	})
}

// newFailedUnmute returns `failed unmute`.
func newFailedUnmute(from *settings) *cobra.Command {
	return from.ends(failures.Unmuted, &cobra.Command{
		Use: "unmute GROUP", Short: "List a muted group of failures again",
		Example: `  watership failed unmute k3f7q2xa`,
	})
}

// ends makes a command end an earlier decision about a group.
func (s *settings) ends(by failures.Decision, cmd *cobra.Command) *cobra.Command {
	change := failures.Change{Decision: by}
	cmd.Args = exactArgs(1, "a group")
	addReason(cmd, &change.Reason, "why")
	return s.decides(cmd, func([]string) (failures.Change, error) { return change, nil })
}

// newFailedNote returns `failed note`.
func newFailedNote(from *settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "note GROUP TEXT",
		Short:   "Add a note to a group of failures",
		Example: `  watership failed note k3f7q2xa 'The supplier answers 410 since Monday: OPS-12'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usagef("expected a group and a text, got %d", len(args))
			}
			return nil
		},
	}
	return from.decides(cmd, func(args []string) (failures.Change, error) {
		return failures.Change{Decision: failures.Noted, Reason: strings.Join(args[1:], " ")}, nil
	})
}

func addReason(cmd *cobra.Command, reason *string, usage string) {
	cmd.Flags().StringVar(reason, "reason", "", usage)
}

// decides makes a command record a decision about the group that is its first argument.
func (s *settings) decides(cmd *cobra.Command, change func(args []string) (failures.Change, error)) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		change, err := change(args)
		if err != nil {
			return err
		}
		if err := change.Check(time.Now()); err != nil {
			return usagef("%w", err)
		}
		return s.withSystem(cmd, func(ctx context.Context, sys backend) error { return decideGroup(ctx, cmd, sys, args[0], change) })
	}
	return cmd
}

func decideGroup(ctx context.Context, cmd *cobra.Command, sys backend, group string, change failures.Change) error {
	decided, err := failures.TriageFailureGroup.Call(ctx, sys, failures.TriageInput{Group: group, Body: failures.GroupDecision{
		Decision: change.Decision, Assignee: change.Assignee, Until: change.Until, Count: change.Count, Reason: change.Reason,
	}})
	if err != nil {
		return err
	}
	done := decided.Body
	out := streamsOf(cmd).Out
	if done.Unchanged {
		fmt.Fprintf(out, "nothing to do: group %s %s\n", group, change.WhyUnchanged())
		return nil
	}
	fmt.Fprintf(out, "%s group %s\n", change.Decision, group)
	if done.Missing > 0 {
		fmt.Fprintln(out, "the store does not have the event of this yet: run watership serve")
	}
	return nil
}
