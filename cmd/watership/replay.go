package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/schemas"
)

func newReplay(from *settings) *cobra.Command {
	var r replay
	cmd := &cobra.Command{
		Use:   "replay [QUERY]",
		Short: "Send the messages that a query finds again",
		Long: `replay sends each message that the query finds, once, in the order in which they
were recorded: to the exchange and routing key that it was first published to,
only to the queue that failed, or to another queue or exchange. What is sent is
the message as first published, with headers that mark the job.

It shows what would be sent before anything is; a terminal is asked, a script
needs --yes. What was replayed to the same target before is left out, unless it
failed again since.

A replay is a job, which is kept: who sent what, why, and how far it came. It
goes on after a loss of the broker; after a crash, 'watership jobs resume' goes
on where it stopped.

A message whose headers are changed is another message to whoever receives it:
it has another fingerprint. The failure that it replays counts as resolved all
the same, since the copy carries the id of the failure's event.`,
		Example: `  watership replay 'action: poisoned and queue: orders' --to-failed-queue --dry-run
  watership replay 'action: poisoned and error.type: timeout' --to-failed-queue --yes --rate 50
  watership replay --ids failed.txt --to-queue orders.repair --expect 12 --yes
  watership replay 'destination.name: shop' --from 2026-05-04T03:00:00Z --canary 10`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			r.terminal = terminalOf(cmd)
			r.query = strings.TrimSpace(strings.Join(args, " "))
			r.keyGiven = cmd.Flags().Changed("key")
			r.expecting = cmd.Flags().Changed("expect")
			if err := r.validate(); err != nil {
				return err
			}
			s, err := from.system(r.terminal)
			if err != nil {
				return err
			}
			return s.replay(cmd.Context(), r)
		},
	}
	r.addFlags(cmd)
	return cmd
}

// replay is what was asked for on the command line.
type replay struct {
	terminal
	query      string
	ids, group string
	dsl        string
	period     span

	toFailedQueue    bool
	toQueue          string
	toExchange, key  string
	keyGiven         bool
	changes          replayer.Changes
	operator, reason string

	dryRun, yes, again bool
	uncheckedRoutes    bool
	rate               float64
	limit              int
	expect             int
	expecting          bool
	canary             int
	canaryWait         time.Duration
}

func (r *replay) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&r.ids, "ids", "", "only messages named in a file, one a line, or - for standard input: message ids, fingerprints, ids of events")
	flags.StringVar(&r.dsl, "dsl", "", "only what matches a query in Elasticsearch's query DSL, in a file as JSON; - is standard input")
	flags.StringVar(&r.group, "group", "", "only failures whose error, with numbers and ids folded, is this (watership.error_group)")
	flags.BoolVar(&r.toFailedQueue, "to-failed-queue", false, "send to the queue that failed and to no other")
	flags.StringVar(&r.toQueue, "to-queue", "", "send to this queue and to no other")
	flags.StringVar(&r.toExchange, "to-exchange", "", "send to this exchange")
	flags.StringVar(&r.key, "key", "", "routing key for --to-exchange (default: each message's own)")
	flags.StringArrayVar(&r.changes.Set, "set-header", nil, "set a header, NAME=VALUE or NAME:TYPE=VALUE with "+strings.Join(replayer.HeaderTypes(), ", "))
	flags.StringArrayVar(&r.changes.Remove, "remove-header", nil, "remove a header")
	flags.BoolVar(&r.dryRun, "dry-run", false, "show what would be sent and stop")
	flags.BoolVarP(&r.yes, "yes", "y", false, "send without asking")
	flags.IntVar(&r.expect, "expect", 0, "stop unless exactly so many messages would be sent")
	flags.BoolVar(&r.again, "again", false, "also send what was replayed before")
	flags.BoolVar(&r.uncheckedRoutes, "unchecked-routes", false, "send although it cannot be checked that a queue takes the messages")
	flags.Float64Var(&r.rate, "rate", 0, "most messages a second; 0 is as fast as the broker takes them")
	flags.IntVar(&r.limit, "limit", 0, "most messages to send; 0 sends all")
	flags.IntVar(&r.canary, "canary", 0, "send so many first, wait for what becomes of them, and ask; with --yes, go on only if all were handled")
	flags.DurationVar(&r.canaryWait, "canary-wait", time.Minute, "longest wait for what becomes of the first messages")
	flags.StringVar(&r.operator, "operator", "", "who replays, for the record (default: USER@HOST)")
	flags.StringVar(&r.reason, "reason", "", "why, for the record")
	r.period.addFlags(cmd)
}

func (r *replay) validate() error {
	targets := 0
	for _, given := range []bool{r.toFailedQueue, r.toQueue != "", r.toExchange != ""} {
		if given {
			targets++
		}
	}
	switch {
	case r.query == "" && r.ids == "" && r.group == "" && r.dsl == "":
		return usagef("expected a query, --ids, --dsl or --group; '*' replays everything there is")
	case r.ids == "-" && r.dsl == "-":
		return usagef("--ids and --dsl cannot both be standard input: give one of them a file")
	case targets > 1:
		return usagef("--to-failed-queue, --to-queue and --to-exchange exclude one another")
	case r.keyGiven && r.toExchange == "":
		return usagef("--key is for --to-exchange")
	case !(r.rate >= 0) || math.IsInf(r.rate, 0): // NaN is neither
		return usagef("--rate %g: expected 0 (no limit) or more", r.rate)
	case r.limit < 0:
		return usagef("--limit %d: expected 0 (no limit) or more", r.limit)
	case r.canary < 0:
		return usagef("--canary %d: expected 0 (none) or more", r.canary)
	case r.expect < 0:
		return usagef("--expect %d: expected 0 or more", r.expect)
	case !r.dryRun && !r.yes && (!isTerminal(r.in) || r.ids == "-" || r.dsl == "-"):
		return usagef("replay asks before it sends, and there is no terminal to ask: give --yes, or --dry-run to look first")
	}
	if err := r.changes.Check(); err != nil {
		return usageError{err}
	}
	return nil
}

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

func (s system) replay(ctx context.Context, r replay) (err error) {
	job, err := s.job(r)
	if err != nil {
		return err
	}
	replays, closing, err := s.replayer(ctx, &r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closing()) }()
	plan, err := replays.Plan(ctx, job)
	if err != nil {
		return err
	}
	if err := writePreview(r.out, plan); err != nil {
		return err
	}
	if r.expecting && plan.Total != r.expect {
		return fmt.Errorf("%s would be sent, %d expected: nothing was sent", plural(plan.Total, "message"), r.expect)
	}
	if r.dryRun || plan.Total == 0 {
		return nil
	}
	if gone := plan.Gone(); gone > 0 && !r.uncheckedRoutes {
		return fmt.Errorf("%s would reach no queue: bring the routes back, narrow the query, or go on with --unchecked-routes",
			plural(gone, "message"))
	}
	if !r.yes && !r.ask(fmt.Sprintf("Send %s?", plural(plan.Total, "message"))) {
		return errors.New("nothing was sent")
	}
	begun, err := replays.Begin(ctx, plan)
	if err != nil {
		return err
	}
	return r.carryOut(ctx, replays, begun)
}

// job is what the command line asks for.
func (s system) job(r replay) (replayer.Job, error) {
	job := replayer.Job{
		Limit: r.limit, Rate: r.rate, Again: r.again, Changes: r.changes, Reason: r.reason,
		Operator: r.operator, Target: r.target(),
	}
	if job.Operator == "" {
		job.Operator = operator()
	}
	node, err := s.selected(r)
	if err != nil {
		return job, err
	}
	fields, err := schemas.Fields()
	if err != nil {
		return job, err
	}
	job.Query = replayer.Fixed(node, fields, time.Now()).String()
	job.DSL, err = r.readDSL()
	return job, err
}

func (r *replay) target() replayer.Target {
	switch {
	case r.toFailedQueue:
		return replayer.Target{Kind: replayer.ToFailedQueue}
	case r.toQueue != "":
		return replayer.Target{Kind: replayer.ToQueue, Queue: r.toQueue}
	case r.toExchange != "" && r.keyGiven:
		return replayer.Target{Kind: replayer.ToExchange, Exchange: r.toExchange, Key: &r.key}
	case r.toExchange != "":
		return replayer.Target{Kind: replayer.ToExchange, Exchange: r.toExchange}
	}
	return replayer.Target{Kind: replayer.ToOrigin}
}

func (t terminal) ask(question string) bool {
	fmt.Fprintf(t.err, "%s [y/N] ", question)
	answer, _ := bufio.NewReader(t.in).ReadString('\n')
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}
