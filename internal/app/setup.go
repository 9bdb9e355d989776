package app

import (
	"context"
	"fmt"

	"github.com/watershipmq/watership/internal/kibana"
	"github.com/watershipmq/watership/internal/topology"
	"github.com/watershipmq/watership/internal/wording"
	"github.com/watershipmq/watership/pipeline"
)

// Setup is what App.Setup does on request.
type Setup struct {
	Kibana *kibana.Client // imports the saved objects; nil: not
	Untap  []string       // exchanges whose taps the configuration does not have any more
	Retire string         // a former topology.prefix; "": none
}

// Setup declares the topology and replaces the queues of former configurations, installs
// the index templates, and does what s asks for. It reports each step, and what former
// configurations have left. A limit by which the broker may drop messages is an error.
func (a *App) Setup(ctx context.Context, s Setup, report func(subject, text string)) error {
	conn, err := a.Dial(ctx)
	if err != nil {
		return err
	}
	migration, err := a.migration(conn)
	if err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{migration.CheckUnused, a.declare, migration.Unbind} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	report("topology", fmt.Sprintf("declared at %s", a.settings.AMQP.URL))
	if err := a.install(ctx); err != nil {
		return err
	}
	report("templates", fmt.Sprintf("installed at %s for %s-*", a.settings.Store.URL, a.settings.Store.Stream))
	if err := a.migrate(ctx, migration, report); err != nil {
		return err
	}
	if err := a.untap(ctx, migration, s.Untap, report); err != nil {
		return err
	}
	if err := a.retire(ctx, s.Retire, report); err != nil {
		return err
	}
	a.reportLeftovers(ctx, report)
	if err := a.importInto(ctx, s.Kibana, report); err != nil {
		return err
	}
	return a.checkLimits(ctx)
}

func (a *App) declare(ctx context.Context) error {
	ctx, cancel := WithTimeout(ctx)
	defer cancel()
	if err := pipeline.Declare(ctx, a.pipeline()); err != nil {
		return fmt.Errorf("declaring the topology at %s: %w", a.settings.AMQP.URL, err)
	}
	return nil
}

func (a *App) install(ctx context.Context) error {
	events, err := a.Store(ctx)
	if err != nil {
		return err
	}
	return events.Install(ctx)
}

// migrate indexes the messages of former index queues and deletes the queues, and the
// empty delay queues of a former release.
func (a *App) migrate(ctx context.Context, migration topology.Migration, report func(subject, text string)) error {
	err := migration.Drain(ctx, func(ctx context.Context, former topology.FormerIndex) error {
		return a.drain(ctx, migration.Conn, former)
	}, func(former topology.FormerIndex) {
		if former.Name == former.Index() {
			report("index", fmt.Sprintf("%s is emptied and replaced by %s", former.Name, a.topology.Index()))
		}
	})
	if err != nil {
		return err
	}
	ctx, cancel := WithTimeout(ctx)
	defer cancel()
	delays, err := migration.DeleteFormerDelays(ctx)
	for _, delay := range delays {
		if delay.Messages > 0 {
			report("delays", fmt.Sprintf("%s holds %s of a former release: run setup again once it is empty", delay.Name, wording.Plural(int(delay.Messages), "message")))
		} else {
			report("delays", fmt.Sprintf("%s of a former release is empty, and deleted", delay.Name))
		}
	}
	return err
}

func (a *App) importInto(ctx context.Context, to *kibana.Client, report func(subject, text string)) error {
	if to == nil {
		return nil
	}
	ctx, cancel := WithTimeout(ctx)
	defer cancel()
	imported, err := to.Import(ctx, a.settings.Store.Stream, a.settings.HTTP.URL.Reveal())
	if err != nil {
		return err
	}
	report("kibana", fmt.Sprintf("%d saved objects imported at %s", imported, to.Address()))
	return nil
}
