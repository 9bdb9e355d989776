package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/terminal"
	"github.com/watershipmq/watership/internal/wording"
	"github.com/watershipmq/watership/replayer"
)

const mostShownRoutes = 20

// writePreview prints the plan of a replay.
func writePreview(out io.Writer, plan replayer.Plan) error {
	var page bytes.Buffer
	fmt.Fprintf(&page, "%s to send", wording.Plural(plan.Total, "message"))
	if plan.Total > 0 {
		fmt.Fprintf(&page, ", of events from %s to %s", wording.Time(plan.First), wording.Time(plan.Last))
	}
	page.WriteByte('\n')
	writeRoutes(&page, plan.Routes)
	if plan.Bodiless > 0 {
		fmt.Fprintf(&page, "  %6d  cannot be sent: the body is not in the store\n", plan.Bodiless)
	}
	for _, reason := range slices.Sorted(maps.Keys(plan.LeftOut)) {
		fmt.Fprintf(&page, "  %6d  left out: %s\n", plan.LeftOut[reason], reason)
	}
	for _, change := range plan.Job.Changes.Set {
		fmt.Fprintf(&page, "  header set: %s\n", terminal.Cell(change, 120))
	}
	for _, name := range plan.Job.Changes.Remove {
		fmt.Fprintf(&page, "  header removed: %s\n", terminal.Cell(name, 120))
	}
	for _, name := range plan.Job.Changes.RemoveProperties {
		fmt.Fprintf(&page, "  property removed: %s\n", terminal.Cell(name, 120))
	}
	if plan.Replies > 0 {
		fmt.Fprintf(&page, "  %6d  ask for a reply, and their clients get another one (--remove-property reply_to prevents it)\n", plan.Replies)
	}
	for _, sample := range plan.Sample {
		fmt.Fprintf(&page, "  such as %s  %s  %s\n", terminal.Cell(nameOf(sample), 80), sample.Action, terminal.Cell(sample.Failure.Message, 80))
	}
	writeWarnings(&page, plan)
	_, err := out.Write(page.Bytes())
	return err
}

// writeWarnings prints conflicts with other jobs that --again allows, and the gaps in
// the records of earlier replays.
func writeWarnings(page *bytes.Buffer, plan replayer.Plan) {
	for _, rival := range plan.Rivals {
		switch {
		case rival.Running && plan.Job.Again:
			fmt.Fprintf(page, "WARNING: job %s of %s is sending to the same target now, and has %d of these messages\n",
				rival.Job.ID, terminal.Cell(rival.Job.Operator, 60), rival.Messages)
		case !rival.Running && !plan.Job.Again:
			fmt.Fprintf(page, "WARNING: the record of %s that job %s sent is not in the store yet: run watership serve, and repeat this\n",
				wording.Plural(int(rival.Unrecorded), "message"), rival.Job.ID)
		}
	}
	if plan.Log.Events > 0 && plan.Log.Consumers == 0 {
		fmt.Fprintf(page, "WARNING: nobody stores %s in the log, so it is not known what was replayed, handled or failed lately: run watership serve\n",
			wording.Plural(plan.Log.Events, "event"))
	}
	if plan.Unreadable > 0 {
		fmt.Fprintf(page, "WARNING: %s cannot be read, so it is not known what was sent by them: see watership jobs list\n", wording.Plural(plan.Unreadable, "job"))
	}
}

func writeRoutes(page *bytes.Buffer, routes []replayer.Route) {
	more, messages := 0, 0
	for i, route := range routes {
		if i >= mostShownRoutes && route.Unroutable == 0 {
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

const fatePause = 500 * time.Millisecond

// observe waits for the outcomes of the first messages of a job, and asks whether to
// go on. With --yes there is no question: each of them must have been sent and
// handled.
func (r *replay) observe(ctx context.Context, replays *replayer.Replayer, job replayer.Job) error {
	outcomes, err := r.await(ctx, replays, job)
	if err != nil {
		return err
	}
	first := job.Sent + job.Failed + job.Skipped
	r.writeOutcomes(outcomes, job)
	goOn := outcomes.Handled == first
	if !r.yes {
		goOn, err = r.Ask(ctx, fmt.Sprintf("Send the other %d?", job.Total-first))
	}
	if err == nil && !goOn {
		err = fmt.Errorf("stopped after the first %s", wording.Plural(first, "message"))
	}
	return err
}

func (r *replay) writeOutcomes(outcomes replayer.Outcomes, job replayer.Job) {
	unsent := ""
	if n := job.Failed + job.Skipped; n > 0 {
		unsent = fmt.Sprintf(", %d not sent", n)
	}
	fmt.Fprintf(r.Out, "of the first %s: %d handled, %d failed, %d not heard of%s\n", wording.Plural(job.Sent+job.Failed+job.Skipped, "message"),
		outcomes.Handled, outcomes.Failed, job.Sent-outcomes.Handled-outcomes.Failed, unsent)
	for _, problem := range outcomes.Problems {
		fmt.Fprintf(r.Out, "  %s\n", terminal.Cell(problem, 120))
	}
	if len(outcomes.NotReported) > 0 {
		fmt.Fprintf(r.Out, "  no word yet from %s\n", terminal.Cell(strings.Join(outcomes.NotReported, ", "), 120))
	}
}

func (r *replay) await(ctx context.Context, replays *replayer.Replayer, job replayer.Job) (replayer.Outcomes, error) {
	deadline := time.Now().Add(r.canaryWait)
	for {
		outcomes, err := replays.Outcomes(ctx, job)
		if err != nil || outcomes.Handled+outcomes.Failed >= job.Sent || time.Now().After(deadline) {
			return outcomes, err
		}
		select {
		case <-ctx.Done():
			return outcomes, ctx.Err()
		case <-time.After(fatePause):
		}
	}
}
