package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/operate/doctor"
	"github.com/watershipmq/watership/internal/operate/routes"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/topology"
	"github.com/watershipmq/watership/internal/topology/role"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/schemas"
)

// untap ends the recording of exchanges that were taken out of the configuration.
func (s setup) untap(ctx context.Context, migration topology.Migration, exchanges []string) error {
	var taps []topology.Tap
	for _, tap := range routes.Handlers(s.System).Tap {
		taps = append(taps, topology.Tap(tap))
	}
	for _, exchange := range exchanges {
		removed, err := migration.Untap(ctx, exchange, taps)
		if err != nil {
			return err
		}
		if removed == 0 {
			return system.InputErrorf("exchange %s: it is tapped with no key that tap.exchanges does not have", exchange)
		}
		s.report("tap", fmt.Sprintf("%s is tapped no more by %s", exchange, wording.Plural(removed, "key")))
	}
	return nil
}

// reportLeftovers reports what former configurations have left.
func (s setup) reportLeftovers(ctx context.Context) {
	for _, f := range doctor.Leftovers(ctx, diagnosis(s.System, routes.Handlers(s.System))) {
		s.report("leftovers", f.Detail+"\n            → "+f.Instruction())
	}
}

// checkRetired refuses a prefix that cannot be retired.
func checkRetired(ctx context.Context, migration topology.Migration, prefix string) error {
	if prefix == "" {
		return nil
	}
	if err := (topology.Retirement{Migration: migration, Former: schemas.Topology{Prefix: prefix}}).Check(ctx); err != nil {
		return system.InputError{Err: err}
	}
	return nil
}

// retire moves the messages of a former prefix to the present topology, and removes the
// former one.
func (s setup) retire(ctx context.Context, prefix string) (err error) {
	if prefix == "" {
		return nil
	}
	conn, err := s.Open("retiring", true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	publisher := rabbit.NewPublisher(conn, rabbit.PublisherConfig{})
	defer func() { err = errors.Join(publisher.Close(), err) }()
	migration, err := newMigration(s.System, conn)
	if err != nil {
		return err
	}
	if err := checkRetired(ctx, migration, prefix); err != nil { // again: a process may have started during setup
		return err
	}
	r := topology.Retirement{
		Migration: migration, Former: schemas.Topology{Prefix: prefix}, Publisher: publisher, StateKeys: s.Secrets().StateKeys, User: "watership setup",
		Reconciler: topology.Reconciler{Conn: conn, SelfBindings: &topology.SelfBindings{}, Config: topology.Config{
			Topology: s.Topology(), QueueType: topology.QueueType(s.Settings().Topology.QueueType),
		}},
	}
	if err := r.Detach(ctx); err != nil {
		return err
	}
	indexes, err := r.Indexed(ctx)
	if err != nil {
		return err
	}
	if err := s.recordDropped(ctx, conn, indexes); err != nil {
		return err
	}
	moved, deadLettered, err := s.emptyFormer(ctx, r)
	for _, queue := range slices.Sorted(maps.Keys(moved)) {
		s.report("retire", fmt.Sprintf("%s of %s moved or recorded", wording.Plural(moved[queue], "message"), queue))
	}
	if err != nil {
		return err
	}
	if err := r.Remove(ctx, len(deadLettered) > 0); err != nil {
		return err
	}
	if len(deadLettered) > 0 {
		s.report("retire", fmt.Sprintf("%s stays, with the queue of its name: it is the dead-letter exchange of %s. Give these queues %s, and retire the prefix %s again",
			r.Former.Retry(), strings.Join(deadLettered, ", "), s.Topology().Retry(), prefix))
		return nil
	}
	s.report("retire", "the exchanges and queues of topology.prefix "+prefix+" are removed")
	return nil
}

const emptyPause = 500 * time.Millisecond // until the management API counts again

// emptyFormer empties the queues of a former prefix until nothing arrives any more.
func (s setup) emptyFormer(ctx context.Context, r topology.Retirement) (moved map[string]int, deadLettered []string, err error) {
	moved = map[string]int{}
	for {
		if err := s.retryFormer(ctx, r); err != nil {
			return moved, nil, err
		}
		batch, err := r.Move(ctx)
		for queue, n := range batch {
			moved[queue] += n
		}
		if err != nil {
			return moved, nil, err
		}
		if err := s.indexFormer(ctx, r, moved); err != nil {
			return moved, nil, err
		}
		left, err := r.Left(ctx)
		if err != nil {
			return moved, nil, err
		}
		if len(left) == 0 {
			deadLettered, err = r.Close(ctx)
			if err != nil {
				return moved, nil, err
			}
			if left, err = r.Left(ctx); err != nil || len(left) == 0 {
				return moved, deadLettered, err
			}
		}
		if err := backoff.Sleep(ctx, emptyPause); err != nil {
			return moved, nil, err
		}
	}
}

// retryFormer handles the dead letters and the reports of the former prefix: RabbitMQ writes
// into a dead letter where it comes from, so none can be moved.
func (s setup) retryFormer(ctx context.Context, r topology.Retirement) error {
	queues := []string{r.Former.Retry(), r.Former.Report()}
	ready, err := readyIn(ctx, r.Conn, queues)
	if err != nil || ready == 0 {
		return err
	}
	kind, err := r.QueueType(ctx)
	if err != nil {
		return err
	}
	cfg := withRoles(routes.Handlers(s.System), []role.Role{role.Retry})
	cfg.Topology, cfg.Tap, cfg.QueueType = r.Former, nil, pipeline.QueueType(kind)
	handlers, err := pipeline.New(cfg)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- handlers.Run(running) }()
	for err == nil && ready > 0 {
		select {
		case err = <-ended:
			return err
		case <-time.After(emptyPause):
			ready, err = readyIn(ctx, r.Conn, queues)
		}
	}
	stop()
	return errors.Join(err, <-ended)
}

// readyIn returns the number of messages in queues, of those that exist.
func readyIn(ctx context.Context, conn *rabbit.Connection, queues []string) (ready int, err error) {
	for _, queue := range queues {
		state, _, err := conn.QueueState(ctx, queue)
		if err != nil {
			return 0, err
		}
		ready += state.Messages
	}
	return ready, nil
}

// indexFormer records the events and the copies of the former prefix.
func (s setup) indexFormer(ctx context.Context, r topology.Retirement, moved map[string]int) error {
	queues, err := r.Indexed(ctx)
	if err != nil {
		return err
	}
	for _, former := range queues {
		ready, err := readyIn(ctx, r.Conn, []string{former.Name})
		if err != nil {
			return err
		}
		if ready == 0 {
			continue
		}
		if err := s.drain(ctx, r.Conn, former); err != nil {
			return err
		}
		moved[former.Name] += ready
	}
	return nil
}
