package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill"
	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/directdelivery"
	"github.com/watershipmq/watership/internal/gctuning"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/terminal"
	"github.com/watershipmq/watership/internal/topology"
	"github.com/watershipmq/watership/replayer"
)

// replayer returns a Replayer that can run jobs, and a function that closes its store
// and connection. r may be nil if no replay is planned.
func (s system) replayer(ctx context.Context, r *replay) (*replayer.Replayer, func() error, error) {
	if r != nil && s.away != nil {
		return nil, nil, s.away
	}
	store, err := s.store(ctx)
	if err != nil {
		return nil, nil, err
	}
	cfg := replayer.Config{
		Store: store, Jobs: store, Topology: s.topology, Login: s.login, NewID: watermill.NewULID, DirectDelivery: s.hop,
		Retention: s.cfg.Store.Retention.Failures,
		Broker:    s.broker("replay"), StateKeys: s.secrets.stateKeys,
	}
	cfg.Broker.Logger = s.logger
	if r == nil {
		return replayer.New(cfg), store.Close, nil
	}
	conn, err := s.connect("replay routes", false)
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	closing := func() error { return errors.Join(conn.Close(), store.Close()) }
	cfg.Log = func(ctx context.Context) (replayer.Log, error) { return s.log(ctx, conn) }
	if r.uncheckedRoutes {
		return replayer.New(cfg), closing, nil
	}
	if cfg.Routes, err = s.routes(ctx, conn, r.target()); err != nil {
		return nil, nil, errors.Join(err, closing())
	}
	return replayer.New(cfg), closing, nil
}

// log returns the state of the log queue; Unknown if the login may not see the queue.
func (s system) log(ctx context.Context, conn *rabbit.Connection) (replayer.Log, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	queue, _, err := conn.QueueState(ctx, s.topology.Log())
	var refused *amqp091.Error
	if errors.As(err, &refused) && refused.Code == amqp091.AccessRefused {
		return replayer.Log{Unknown: true}, nil
	}
	return replayer.Log{Events: queue.Messages, Consumers: queue.Consumers, Unknown: queue.Locked}, err
}

func (s system) hop(conn *rabbit.Connection, publisher *rabbit.Publisher) replayer.DirectDelivery {
	hop := directdelivery.Sender{
		Topology: s.topology, StateKeys: s.secrets.stateKeys, Publisher: publisher, Login: s.login, Own: map[string]bool{},
		Binder: topology.Reconciler{Conn: conn, Config: topology.Config{Topology: s.topology}},
	}
	for _, route := range s.cfg.Routes {
		hop.Own[route.Queue] = true
	}
	return hop
}

// routes asks the broker where messages go. For exchanges it needs the management API.
func (s system) routes(ctx context.Context, conn *rabbit.Connection, target replayer.Target) (replayer.Routes, error) {
	management, err := s.managementAPI()
	if err != nil {
		return nil, err
	}
	if target.Kind == replayer.ToOrigin || target.Kind == replayer.ToExchange {
		ctx, cancel := bounded(ctx)
		defer cancel()
		if _, err := management.WhoAmI(ctx); err != nil {
			return nil, fmt.Errorf("whether the routes lead to a queue cannot be checked (%w): "+
				"set amqp.management_url (now %s), or go on with --unchecked-routes", err, s.cfg.AMQP.ManagementURL)
		}
	}
	return rabbit.NewRoutes(management, conn, s.vhost, s.topology), nil
}

// carryOut runs a new job, the canaries first.
func (r *replay) carryOut(ctx context.Context, replays *replayer.Replayer, job replayer.Job) error {
	if r.canary > 0 && r.canary < job.Total {
		ran, err := runJob(ctx, r.Streams, replays, job, r.canary)
		if err != nil || ran.State != replayer.Paused {
			return reportJob(r.Streams, ran, err)
		}
		if err := r.observe(ctx, replays, ran); err != nil {
			return reportJob(r.Streams, ran, err)
		}
		job = ran
	}
	ran, err := runJob(ctx, r.Streams, replays, job, 0)
	return reportJob(r.Streams, ran, err)
}

// runJob runs the rest of a job with a progress bar, and prints failures to send as
// they happen.
func runJob(ctx context.Context, t terminal.Streams, replays *replayer.Replayer, job replayer.Job, stopAfter int) (replayer.Job, error) {
	gctuning.Apply(0)
	bar := terminal.NewBar(t.Err, job.Total)
	bar.StartAt(job.Sent + job.Failed + job.Skipped)
	failed := job.Failed
	ran, err := replays.Run(ctx, job.ID, replayer.RunOptions{StopAfter: stopAfter, Expected: &job, Progress: func(now replayer.Job) {
		if now.Failed > failed {
			bar.End()
			fmt.Fprintf(t.Err, "not sent: %s\n", failureText(now.Latest))
			failed = now.Failed
		}
		bar.Show(now.Sent + now.Failed + now.Skipped)
	}})
	bar.End()
	if ran.ID == "" {
		ran = job
	}
	return ran, err
}

func failureText(f replayer.Failure) string {
	if f.Message != "" {
		return fmt.Sprintf("message %s, event %s: %s", terminal.Cell(f.Message, 80), terminal.Cell(f.EventID, 0), terminal.Cell(f.Reason, 0))
	}
	return fmt.Sprintf("event %s: %s", terminal.Cell(f.EventID, 0), terminal.Cell(f.Reason, 0))
}

// reportJob prints how a run ended.
func reportJob(t terminal.Streams, job replayer.Job, err error) error {
	fmt.Fprintf(t.Out, "sent %d of %d, job %s\n", job.Sent, job.Total, terminal.Cell(job.ID, 0))
	if job.Skipped > 0 {
		fmt.Fprintf(t.Err, "%s left out: other jobs replayed them meanwhile\n", terminal.Plural(job.Skipped, "message"))
	}
	if err != nil && !job.Finished() {
		// Not part of the error: the error of an interruption is not printed.
		fmt.Fprintf(t.Err, "go on with: watership jobs resume %s\n", terminal.Cell(job.ID, 0))
	}
	switch {
	case err != nil:
		return err
	case job.Failed > 0:
		return fmt.Errorf("%s could not be sent: see watership jobs show %s", terminal.Plural(job.Failed, "message"), job.ID)
	}
	return nil
}
