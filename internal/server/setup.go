package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/watershipmq/watership/internal/operate/routes"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/internal/server/kibana"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/topology"
	"github.com/watershipmq/watership/pipeline"
)

// Setup is what an operator asks Run to do.
type Setup struct {
	Kibana *kibana.Client // imports the saved objects; nil: not
	Untap  []string       // exchanges whose taps the configuration does not have any more
	Retire string         // a former topology.prefix; "": none
}

// setup prepares the servers of a System, and reports each step.
type setup struct {
	*system.System
	report func(subject, text string)
}

// Run declares the topology and replaces the queues of former configurations, installs
// the index templates, and does what an operator asks for. It reports each step, and what former
// configurations have left. A limit by which the broker may drop messages is an error.
func (asked Setup) Run(ctx context.Context, sys *system.System, report func(subject, text string)) error {
	s := setup{sys, report}
	conn, err := s.Dial(ctx)
	if err != nil {
		return err
	}
	migration, err := newMigration(sys, conn)
	if err != nil {
		return err
	}
	var mistake system.InputError // without the management API, the topology can be declared
	if err := system.CheckCluster(ctx, migration.Management, conn); errors.As(err, &mistake) {
		return err
	}
	if err := checkRetired(ctx, migration, asked.Retire); err != nil {
		return err
	}
	restored := func(ctx context.Context) error {
		return restore(ctx, sys, migration, func(queue string) {
			report("topology", fmt.Sprintf("%s was deleted, and is declared again: watership search 'action: dropped' says what is lost", queue))
		})
	}
	switched := func(ctx context.Context) error {
		return migration.Switch(ctx, topology.Config{Topology: s.Topology(), QueueType: topology.QueueType(s.Settings().Topology.QueueType)})
	}
	for _, step := range []func(context.Context) error{migration.CheckUnused, restored, switched, s.declare, migration.Unbind} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	settings := s.Settings()
	report("topology", fmt.Sprintf("declared at %s", settings.AMQP.URL))
	if err := s.install(ctx); err != nil {
		return err
	}
	report("templates", fmt.Sprintf("installed at %s for %s-*", settings.Store.URL, settings.Store.Stream))
	if err := s.migrate(ctx, migration); err != nil {
		return err
	}
	if err := s.untap(ctx, migration, asked.Untap); err != nil {
		return err
	}
	if err := s.retire(ctx, asked.Retire); err != nil {
		return err
	}
	s.reportLeftovers(ctx)
	if err := s.importInto(ctx, asked.Kibana); err != nil {
		return err
	}
	return s.checkLimits(ctx)
}

// routeTime is the time in which the queues of a route are surely declared: a cluster that is busy takes
// some tenths of a second for each.
const routeTime = time.Second

func (s setup) declare(ctx context.Context) error {
	handlers := routes.Handlers(s.System)
	limit := system.RequestTimeout + time.Duration(len(handlers.Routes))*routeTime
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not all is declared within %s", limit))
	defer cancel()
	if err := pipeline.Declare(ctx, handlers); err != nil {
		return fmt.Errorf("declaring the topology at %s: %w", s.Settings().AMQP.URL, err)
	}
	return nil
}

func (s setup) install(ctx context.Context) error {
	events, err := s.Store(ctx)
	if err != nil {
		return err
	}
	return events.Install(ctx)
}

// migrate indexes the messages of former index queues and deletes the queues, and the
// empty delay queues of a former release.
func (s setup) migrate(ctx context.Context, migration topology.Migration) error {
	former, err := migration.FormerIndexes(ctx)
	if err == nil {
		err = s.recordDropped(ctx, migration.Conn, former)
	}
	if err != nil {
		return err
	}
	err = migration.Drain(ctx, func(ctx context.Context, former topology.FormerIndex) error {
		return s.drain(ctx, migration.Conn, former)
	}, func(former topology.FormerIndex) {
		if !former.IsLate() {
			s.report("index", fmt.Sprintf("%s is emptied and replaced by %s", former.Name, s.Topology().Index()))
		}
	})
	if err != nil {
		return err
	}
	ctx, cancel := system.WithTimeout(ctx)
	defer cancel()
	delays, err := migration.DeleteFormerDelays(ctx)
	for _, delay := range delays {
		if delay.Messages > 0 {
			s.report("delays", fmt.Sprintf("%s holds %s of a former release: run setup again once it is empty", delay.Name, wording.Plural(int(delay.Messages), "message")))
		} else {
			s.report("delays", fmt.Sprintf("%s of a former release is empty, and deleted", delay.Name))
		}
	}
	return err
}

func (s setup) importInto(ctx context.Context, to *kibana.Client) error {
	if to == nil {
		return nil
	}
	ctx, cancel := system.WithTimeout(ctx)
	defer cancel()
	imported, err := to.Import(ctx, s.Settings().Store.Stream, s.Settings().HTTP.URL.Reveal())
	if err != nil {
		return err
	}
	s.report("kibana", fmt.Sprintf("%d saved objects imported at %s", imported, to.Address()))
	return nil
}
