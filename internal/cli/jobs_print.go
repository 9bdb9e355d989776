package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/replayer"
)

// jobs writes the readable jobs.
func (o *outputFormat) jobs(to printer, jobs iter.Seq2[replayer.Job, error]) error {
	all := []replayer.Job{}
	var unreadable []error
	for job, err := range jobs {
		var store *eventstore.Error
		switch {
		case errors.As(err, &store):
			return err
		case err != nil:
			unreadable = append(unreadable, err)
		default:
			all = append(all, job)
		}
	}
	return errors.Join(append([]error{writeItems(to.Out, *o, all, func() error { return to.jobs(all) })}, unreadable...)...)
}

func (p printer) jobs(jobs []replayer.Job) error {
	if len(jobs) == 0 {
		return p.printf("nothing was replayed yet")
	}
	t := terminal.NewTable(p.Out, p.screen, jobColumns()...)
	for _, job := range jobs {
		if err := t.Row(job.ID, terminal.TimeCell(job.Created), jobState(job), strconv.Itoa(job.Sent), strconv.Itoa(job.Failed),
			strconv.Itoa(job.Total), job.Operator, job.Target.String(), job.Query); err != nil {
			return err
		}
	}
	return t.Flush()
}

func jobColumns() []terminal.Column {
	return []terminal.Column{
		{Title: "JOB", Fixed: true},
		{Title: "CREATED", Fixed: true, Times: true, DropOrder: 4},
		{Title: "STATE", Fixed: true},
		{Title: "SENT", Fixed: true, Right: true},
		{Title: "FAILED", Fixed: true, Right: true, DropOrder: 1},
		{Title: "TOTAL", Fixed: true, Right: true, DropOrder: 2},
		{Title: "OPERATOR", DropOrder: 5},
		{Title: "TO", DropOrder: 6},
		{Title: "QUERY", DropOrder: 3},
	}
}

// jobState returns the state of a job; "interrupted" if its process was killed.
func jobState(job replayer.Job) string {
	if job.State == replayer.Running && !job.Running(time.Now()) {
		return "interrupted"
	}
	return string(job.State)
}

func (o *outputFormat) job(out io.Writer, job replayer.Job) error {
	switch o.name {
	case "json":
		return terminal.WriteIndentedJSON(out, job)
	case "ndjson":
		return terminal.WriteJSON(out, job)
	}
	var page bytes.Buffer
	field := fieldPrinter(&page)
	writeJobRequest(field, job)
	writeCounts(field, job)
	for _, at := range []struct {
		name string
		time time.Time
	}{{"created", job.Created}, {"started", job.Started}, {"updated", job.Updated}, {"ended", job.Ended}} {
		if !at.time.IsZero() {
			field(at.name, terminal.Time(at.time))
		}
	}
	writeFailures(&page, job)
	_, err := out.Write(page.Bytes())
	return err
}

// fieldPrinter returns a function that writes a name and a value on a line, or nothing
// for an empty value.
func fieldPrinter(page *bytes.Buffer) func(name string, value any) {
	return func(name string, value any) {
		if text := fmt.Sprint(value); text != "" {
			fmt.Fprintf(page, "%-12s %s\n", name, terminal.Cell(text, 0))
		}
	}
}

// writeJobRequest writes the selection, the target and the changes of a job.
func writeJobRequest(field func(string, any), job replayer.Job) {
	field("job", job.ID)
	field("state", jobState(job))
	field("problem", terminal.Cell(job.Problem, 400))
	field("operator", terminal.Cell(job.Operator, 100))
	field("reason", terminal.Cell(job.Reason, 400))
	field("query", job.Query)
	field("dsl", string(job.DSL))
	field("to", job.Target)
	for _, change := range changesOf(job) {
		field(change.name, terminal.Cell(change.value, 200))
	}
	if job.DropReplyTo {
		field("reply_to", "removed")
	}
}

func writeCounts(field func(string, any), job replayer.Job) {
	field("total", job.Total)
	field("sent", job.Sent)
	if job.Skipped > 0 {
		field("left out", fmt.Sprintf("%d, replayed by other jobs, handled or discarded since the plan", job.Skipped))
	}
	if job.Filtered > 0 {
		field("filtered", fmt.Sprintf("%d, by the transform", job.Filtered))
	}
	field("failed", job.Failed)
	if job.Limit > 0 {
		field("limit", job.Limit)
	}
	if job.Stopped > 0 {
		field("stopped", fmt.Sprintf("%d, after a failure in their stream", job.Stopped))
	}
	if job.Rate > 0 {
		field("rate", fmt.Sprintf("%g/s", job.Rate))
	}
	for _, step := range job.Steps {
		field("step", rampStepText(step))
	}
}

// rampStepText returns a step of a job in words.
func rampStepText(step replayer.Step) string {
	text := fmt.Sprintf("up to %d: %d sent, %d handled, %d failed", step.End, step.Sent, step.Handled, step.Failed)
	if step.Silent > 0 {
		text += fmt.Sprintf(", %d without a report that did not come back", step.Silent)
	}
	if step.Problem != "" {
		text += ", paused: " + terminal.Cell(step.Problem, 200)
	}
	return text
}

func writeFailures(page *bytes.Buffer, job replayer.Job) {
	if job.Failed == 0 {
		return
	}
	page.WriteString("\nnot sent\n")
	for _, failure := range job.Failures {
		fmt.Fprintf(page, "  %s\n", failureText(failure))
	}
	if more := job.Failed - len(job.Failures); more > 0 {
		fmt.Fprintf(page, "  … and %d more\n", more)
	}
}
