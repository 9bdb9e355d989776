package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/watershipmq/watership/internal/lasthop"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/pipeline/amqp"
	"github.com/watershipmq/watership/replayer"
)

func newReplay(from *settings) *cobra.Command {
	var r replay
	cmd := &cobra.Command{
		Use:   "replay QUERY",
		Short: "Send the messages that a query finds again",
		Long: `replay sends each message that the query finds, once, to the exchange and
routing key that it was first published to, or only to the queue that failed.
What is sent is the message as first published, with headers that mark the job.
It shows what would be sent before anything is; a terminal is asked, a script
needs --yes.`,
		Example: `  watership replay 'action: poisoned and queue: orders' --to-failed-queue --dry-run
  watership replay 'action: poisoned and error.type: timeout' --to-failed-queue --yes --rate 50`,
		Args: cobra.MinimumNArgs(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			text := strings.Join(args, " ")
			if strings.TrimSpace(text) == "" {
				return usagef("expected a query; '*' replays everything there is")
			}
			s, err := from.system(terminalOf(cmd))
			if err != nil {
				return err
			}
			r.terminal = terminalOf(cmd)
			return s.replay(cmd.Context(), r, text)
		},
	}
	r.addFlags(cmd)
	return cmd
}

// replay is what was asked for on the command line.
type replay struct {
	terminal
	period          span
	toFailedQueue   bool
	dryRun, yes     bool
	uncheckedRoutes bool
	rate            float64
	limit           int
}

func (r *replay) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&r.toFailedQueue, "to-failed-queue", false, "send to the queue that failed and to no other")
	flags.BoolVar(&r.dryRun, "dry-run", false, "show what would be sent and stop")
	flags.BoolVarP(&r.yes, "yes", "y", false, "send without asking")
	flags.BoolVar(&r.uncheckedRoutes, "unchecked-routes", false, "send although it cannot be checked that a queue takes the messages")
	flags.Float64Var(&r.rate, "rate", 0, "most messages a second; 0 is as fast as the broker takes them")
	flags.IntVar(&r.limit, "limit", 0, "most messages to send; 0 sends all")
	r.period.addFlags(cmd)
}

func (r *replay) validate() error {
	switch {
	case r.rate < 0:
		return usagef("--rate %g: expected 0 (no limit) or more", r.rate)
	case r.limit < 0:
		return usagef("--limit %d: expected 0 (no limit) or more", r.limit)
	case !r.dryRun && !r.yes && !isTerminal(r.in):
		return usagef("replay asks before it sends, and there is no terminal to ask: give --yes, or --dry-run to look first")
	}
	return nil
}

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

func (s system) replay(ctx context.Context, r replay, text string) (err error) {
	if err := r.validate(); err != nil {
		return err
	}
	job := replayer.Job{Limit: r.limit, Rate: r.rate}
	if job.Query, err = s.parseQuery(text); err != nil {
		return err
	}
	if job.Query, err = r.period.limit(job.Query); err != nil {
		return err
	}
	if r.toFailedQueue {
		job.Target = replayer.ToFailedQueue
	}
	store, err := s.store()
	if err != nil {
		return err
	}
	defer store.Close()
	conn, err := s.connect("replay", false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	publisher := rabbit.NewPublisher(conn, rabbit.PublisherConfig{})
	defer func() { err = errors.Join(err, publisher.Close()) }()
	routes, err := s.routes(ctx, conn, r)
	if err != nil {
		return err
	}
	return r.carryOut(ctx, replayer.New(replayer.Config{
		Store: store, Publisher: publisher, Topology: s.topology, Login: s.login, NewID: watermill.NewULID,
		Hop: s.hop(conn, publisher), Routes: routes,
	}), job)
}

func (s system) hop(conn *rabbit.Connection, publisher *rabbit.Publisher) lasthop.Hop {
	hop := lasthop.Hop{
		Topology: s.topology, Publisher: publisher, Login: s.login, Own: map[string]bool{},
		Binder: amqp.LiveTopology{Conn: conn, Config: s.pipeline().TopologyConfig()},
	}
	for _, route := range s.cfg.Routes {
		hop.Own[route.Queue] = true
	}
	return hop
}

// routes asks the broker where messages go, or nobody where that was allowed.
func (s system) routes(ctx context.Context, conn *rabbit.Connection, r replay) (replayer.Routes, error) {
	if r.uncheckedRoutes {
		return nil, nil
	}
	management, err := rabbit.NewManagement(s.cfg.AMQP.ManagementURL.Reveal(), nil)
	if err != nil {
		return nil, err
	}
	if !r.toFailedQueue {
		ctx, cancel := bounded(ctx)
		defer cancel()
		if _, err := management.WhoAmI(ctx); err != nil {
			return nil, fmt.Errorf("whether the original routes still lead to a queue cannot be checked (%w): "+
				"set amqp.management_url (now %s), or go on with --unchecked-routes", err, s.cfg.AMQP.ManagementURL)
		}
	}
	return rabbit.NewRoutes(management, conn, s.vhost, s.topology), nil
}

func (r *replay) carryOut(ctx context.Context, replays *replayer.Replayer, job replayer.Job) error {
	plan, err := replays.Plan(ctx, job)
	if err != nil {
		return err
	}
	writePreview(r.out, plan)
	if r.dryRun || plan.Total == 0 {
		return nil
	}
	if gone := plan.Gone(); gone > 0 && !r.uncheckedRoutes {
		return fmt.Errorf("%s would reach no queue: bring the routes back, narrow the query, or go on with --unchecked-routes",
			plural(gone, "message"))
	}
	if !r.yes && !r.confirm(plan.Total) {
		return errors.New("nothing was sent")
	}
	bar := newBar(r.err, plan.Total)
	done, err := replays.Run(ctx, plan, func(p replayer.Progress) { bar.show(p.Sent + len(p.Failed)) })
	bar.end()
	return r.report(plan, done, err)
}

func (r *replay) confirm(total int) bool {
	fmt.Fprintf(r.err, "Send %s? [y/N] ", plural(total, "message"))
	answer, _ := bufio.NewReader(r.in).ReadString('\n')
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}

func (r *replay) report(plan replayer.Plan, done replayer.Progress, err error) error {
	fmt.Fprintf(r.out, "sent %d of %d, job %s\n", done.Sent, plan.Total, plan.Job.ID)
	for _, failure := range done.Failed {
		fmt.Fprintf(r.err, "not sent: event %s: %v\n", failure.EventID, failure.Err)
	}
	switch {
	case err != nil:
		return err
	case len(done.Failed) > 0:
		return fmt.Errorf("%s could not be sent", plural(len(done.Failed), "message"))
	}
	return nil
}

func writePreview(out io.Writer, plan replayer.Plan) {
	fmt.Fprintf(out, "%s to send", plural(plan.Total, "message"))
	if plan.Total > 0 {
		fmt.Fprintf(out, ", of events from %s to %s", oneLine(plan.First), oneLine(plan.Last))
	}
	fmt.Fprintln(out)
	for _, route := range plan.Routes {
		state := ""
		switch {
		case route.Gone:
			state = "  GONE: nothing takes these"
		case route.Unchecked:
			state = "  not checked"
		}
		fmt.Fprintf(out, "  %6d  %s%s\n", route.Messages, cell(route.String(), 120), state)
	}
	for reason, count := range plan.LeftOut {
		fmt.Fprintf(out, "  %6d  left out: %s\n", count, reason)
	}
	for _, sample := range plan.Sample {
		fmt.Fprintf(out, "  such as %s  %s  %s\n", nameOf(sample), sample.Action, cell(sample.Failure.Message, 80))
	}
}
