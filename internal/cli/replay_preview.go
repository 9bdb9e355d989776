package cli

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/internal/render/columns"
	"github.com/watershipmq/watership/internal/render/jsondiff"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/replayer/transform"
)

const maxShownRoutes = 20

// writePreview prints the plan of a replay.
func writePreview(out io.Writer, plan replayer.Plan) error {
	var page bytes.Buffer
	fmt.Fprintf(&page, "%s to send", wording.Plural(plan.Matched, "message"))
	if plan.Matched > 0 {
		fmt.Fprintf(&page, ", of events %s", terminal.Span(plan.First, plan.Last))
	}
	page.WriteByte('\n')
	writeRoutes(&page, plan.Routes)
	if plan.Quarantined > 0 {
		fmt.Fprintf(&page, "  %6d  quarantined: sent from the kept message\n", plan.Quarantined)
	}
	if plan.Bodiless > 0 {
		fmt.Fprintf(&page, "  %6d  cannot be sent: the body is not in the store\n", plan.Bodiless)
	}
	if plan.Untransformed > 0 {
		fmt.Fprintf(&page, "  %6d  cannot be sent: the transform fails\n", plan.Untransformed)
	}
	if plan.Erased > 0 {
		fmt.Fprintf(&page, "  %6d  erased, and not sent\n", plan.Erased)
	}
	for _, reason := range slices.Sorted(maps.Keys(plan.LeftOut)) {
		fmt.Fprintf(&page, "  %6d  left out: %s\n", plan.LeftOut[reason], terminal.Cell(leftOutText(reason, plan), 200))
	}
	for _, change := range changesOf(plan.Job) {
		fmt.Fprintf(&page, "  %s: %s\n", change.name, terminal.Cell(change.value, 120))
	}
	if plan.Replies > 0 {
		fmt.Fprintf(&page, "  %6d  ask for a reply, and their clients get another one\n", plan.Replies)
	}
	if plan.RepliesDropped > 0 {
		fmt.Fprintf(&page, "  %6d  ask for a reply, and are sent without reply_to (--drop-reply-to=false keeps it)\n", plan.RepliesDropped)
	}
	for _, sample := range plan.Sample {
		fmt.Fprintf(&page, "  such as %s  %s  %s\n", terminal.Cell(columns.MessageID(sample), 80), terminal.Cell(actionText(sample), 60), terminal.Cell(sample.Failure.Message, 80))
	}
	for _, example := range plan.Examples {
		if err := writeExample(&page, example, "is sent with"); err != nil {
			return err
		}
	}
	for _, warning := range replays.PlanWarnings(plan) {
		fmt.Fprintf(&page, "WARNING: %s\n", warning)
	}
	_, err := out.Write(page.Bytes())
	return err
}

// change is a line about a change that a job makes to its messages.
type change struct{ name, value string }

func changesOf(job replayer.Job) []change {
	var changes []change
	add := func(name string, values ...string) {
		for _, value := range values {
			changes = append(changes, change{name, value})
		}
	}
	switch c := job.Changes; {
	case c.Clear && len(c.Keep) > 0:
		add("headers removed", "all except "+strings.Join(c.Keep, ", "))
	case c.Clear:
		add("headers removed", "all")
	}
	add("header set", job.Changes.Set...)
	add("header removed", job.Changes.Remove...)
	add("property set", job.Changes.SetProperties...)
	add("property removed", job.Changes.RemoveProperties...)
	add("schedule", replays.Words(replays.ScheduleOf(job))...)
	if job.Transform != "" {
		add("transform", job.Transform)
	}
	return changes
}

const maxDifferences = 10 // of an example

// writeExample writes the changes of a program in a message.
func writeExample(page *bytes.Buffer, example transform.Example, verb string) error {
	if example.Problem != "" {
		fmt.Fprintf(page, "  event %s: %s\n", terminal.Cell(example.EventID, 80), terminal.Cell(example.Problem, 200))
		return nil
	}
	before, err := jsondiff.Decode(example.Before)
	if err != nil {
		return fmt.Errorf("reading an example: %w", err)
	}
	after, err := jsondiff.Decode(example.After)
	if err != nil {
		return fmt.Errorf("reading an example: %w", err)
	}
	fmt.Fprintf(page, "  event %s %s\n", terminal.Cell(example.EventID, 80), verb)
	differences := jsondiff.Compare(before, after, nil, maxDifferences+1)
	for _, difference := range differences[:min(len(differences), maxDifferences)] {
		fmt.Fprintf(page, "    %s\n", terminal.Cell(difference.String(), 160))
	}
	if len(differences) > maxDifferences {
		page.WriteString("    …\n")
	}
	return nil
}

func writeRoutes(page *bytes.Buffer, routes []replayer.Route) {
	more, messages := 0, 0
	for i, route := range routes {
		if i >= maxShownRoutes && route.Unroutable == 0 {
			more++
			messages += route.Messages
			continue
		}
		state := ""
		switch {
		case route.Unroutable == route.Messages:
			state = "  GONE: nothing takes these"
		case route.Unroutable > 0:
			state = fmt.Sprintf("  GONE for %d of them: nothing takes these", route.Unroutable)
		case route.Unchecked:
			state = "  not checked"
		}
		fmt.Fprintf(page, "  %6d  %s%s\n", route.Messages, terminal.Cell(route.String(), 120), state)
	}
	if more > 0 {
		fmt.Fprintf(page, "  %6d  %d other routes\n", messages, more)
	}
}
