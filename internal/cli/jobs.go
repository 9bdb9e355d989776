package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/replayer"
)

func newJobs(from *settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "jobs",
		Short: "List, show, resume and cancel replay jobs",
		Long: `Each replay is a job: a record of its query, target, operator, reason and progress.
Jobs are kept in the store; in Elasticsearch, in the index STREAM.jobs.`,
		Args: rejectUnknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newJobsList(from), newJobsShow(from), newJobsResume(from), newJobsCancel(from))
	return cmd
}

func newJobsList(from *settings) *cobra.Command {
	var format outputFormat
	var limit int
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List jobs, newest first",
		Example: "  watership jobs list\n  watership jobs list --limit 0 -o ndjson",
		Args:    exactArgs(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 0 {
				return usagef("--limit %d: expected 0 (no limit) or more", limit)
			}
			to := from.printer(cmd)
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error {
				return format.jobs(to, listJobs(ctx, sys, limit))
			})
		},
	}
	cmd.Flags().IntVarP(&limit, "limit", "n", 20, "maximum number of jobs; 0: no limit")
	format.addFlag(cmd, "table", "json", "ndjson")
	return cmd
}

func newJobsShow(from *settings) *cobra.Command {
	var format outputFormat
	every := func(replayer.Job) bool { return true }
	cmd := newJobCommand(from, every, &cobra.Command{
		Use:     "show JOB",
		Short:   "Show a job and the messages that it could not send",
		Example: "  watership jobs show 01M7Z3ATW9WRXS3FNYKEP3SJ8P\n  watership jobs show 01M7Z3ATW9WRXS3FNYKEP3SJ8P -o json",
	}, func(ctx context.Context, t terminal.Streams, jobs backend, id string) error {
		job, err := readJob(ctx, jobs, id)
		if err != nil {
			return err
		}
		return format.job(t.Out, job)
	})
	format.addFlag(cmd, "table", "json", "ndjson")
	return cmd
}

func newJobsResume(from *settings) *cobra.Command {
	stopped := func(job replayer.Job) bool { return !job.Finished() && !job.Running(time.Now()) }
	var yes bool
	var expect *int
	cmd := newJobCommand(from, stopped, &cobra.Command{
		Use:   "resume JOB",
		Short: "Resume a stopped job",
		Long: fmt.Sprintf(`Send the remaining messages of a job. The job is shown first, since other users of
the store may have changed it. A terminal prompts for confirmation; a script needs
--yes.

Confirmed messages are not sent again, and messages that were handled or discarded since
the plan are left out. After a crash, up to %d messages that were in flight may be sent
twice.`, replayer.Window),
		Example: "  watership jobs resume 01M7Z3ATW9WRXS3FNYKEP3SJ8P\n  watership jobs resume 01M7Z3ATW9WRXS3FNYKEP3SJ8P --expect 12 --yes",
	}, func(ctx context.Context, t terminal.Streams, jobs backend, id string) error {
		return resume(ctx, t, jobs, id, expect, yes)
	})
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "skip the confirmation prompt")
	cmd.Flags().Var(number{&expect}, "expect", "stop unless exactly this many messages are left")
	return cmd
}

func resume(ctx context.Context, t terminal.Streams, jobs backend, id string, expect *int, yes bool) error {
	job, err := readJob(ctx, jobs, id)
	if err != nil {
		return err
	}
	if job.Finished() {
		return errors.New(replays.EndedText(job))
	}
	if err := checkNumber(expect, replays.Left(job), "message"); err != nil {
		return err
	}
	if agreed, err := confirmResume(ctx, t, job, yes); !agreed {
		return err
	}
	return resumeJob(ctx, t, jobs, job)
}

// confirmResume prints a job and asks whether to resume it.
func confirmResume(ctx context.Context, t terminal.Streams, job replayer.Job, yes bool) (bool, error) {
	if !yes && !terminal.IsTerminal(t.In) {
		return false, usagef("jobs resume asks before it sends, and there is no terminal to ask: give --yes, or look first with jobs show")
	}
	var page bytes.Buffer
	writeJobRequest(fieldPrinter(&page), job)
	if _, err := t.Out.Write(page.Bytes()); err != nil || yes {
		return err == nil, err
	}
	agreed, err := t.Ask(ctx, fmt.Sprintf("Send the other %d?", replays.Left(job)))
	if err == nil && !agreed {
		err = errors.New("nothing was sent")
	}
	return agreed, err
}

func newJobsCancel(from *settings) *cobra.Command {
	var reason string
	open := func(job replayer.Job) bool { return !job.Finished() }
	cmd := newJobCommand(from, open, &cobra.Command{
		Use:   "cancel JOB",
		Short: "Cancel a job",
		Long: `Cancel a job. If it is running, it stops within seconds. Messages that were sent stay
sent.`,
		Example: "  watership jobs cancel 01M7Z3ATW9WRXS3FNYKEP3SJ8P --reason 'wrong queue'",
	}, func(ctx context.Context, t terminal.Streams, jobs backend, id string) error {
		job, err := cancelJob(ctx, jobs, id, reason)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(t.Out, "cancelled job %s, which had sent %d of %d\n", terminal.Cell(job.ID, 0), job.Sent, job.Total)
		return err
	})
	cmd.Flags().StringVar(&reason, "reason", "", "reason in the job's record")
	return cmd
}

// newJobCommand makes a command for one job, which calls do. Completion offers the jobs
// for which offered is true.
func newJobCommand(from *settings, offered func(replayer.Job) bool, cmd *cobra.Command,
	do func(context.Context, terminal.Streams, backend, string) error,
) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = exactArgs(1, "the id of one job"), completeJobs(from, offered)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return from.withSystem(cmd, func(ctx context.Context, sys backend) error {
			return do(ctx, streamsOf(cmd), sys, args[0])
		})
	}
	return cmd
}

// completeJobs completes the ids of the newest jobs for which wanted is true.
func completeJobs(from *settings, wanted func(replayer.Job) bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var ids []cobra.Completion
		err := from.withSystem(cmd, func(ctx context.Context, sys backend) (err error) {
			ids, err = jobCompletions(ctx, sys, wanted)
			return err
		})
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return ids, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

const maxJobCompletions = 50

func jobCompletions(ctx context.Context, jobs backend, wanted func(replayer.Job) bool) ([]cobra.Completion, error) {
	ctx, cancel := system.WithTimeout(ctx)
	defer cancel()
	var ids []cobra.Completion
	for job, err := range listJobs(ctx, jobs, maxJobCompletions) {
		var store *eventstore.Error
		if errors.As(err, &store) {
			return nil, err
		}
		if err == nil && isWord(job.ID) && isWord(string(job.State)) && wanted(job) {
			ids = append(ids, cobra.CompletionWithDesc(job.ID, fmt.Sprintf("%s, %d of %d", job.State, job.Sent, job.Total)))
		}
	}
	return ids, nil
}
