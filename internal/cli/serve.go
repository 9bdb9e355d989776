package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/watershipmq/watership/broker"
	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/indexer"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/gctuning"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/terminal"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/schemas"
)

func newServe(from *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "Run the pipeline and the indexer until SIGTERM",
		Long: `Declare the topology, tap the exchanges, run the routes with their retry and poison
handlers, and index every event. serve waits for servers that are unavailable.

On SIGTERM or SIGINT it stops consuming, waits for running handlers, requeues the
remaining messages and exits with 0.`,
		Example: "  watership serve --config watership.yaml",
		Args:    exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := from.load()
			if err != nil {
				return err
			}
			return serve(cmd.Context(), streamsOf(cmd), cfg)
		},
	}
}

// serve runs a configuration, with a broker if that is embedded.
func serve(ctx context.Context, t terminal.Streams, cfg config.Config) (err error) {
	e, err := embed(ctx, &cfg, broker.Config{Logger: newLogger(t, cfg.Log)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.end()) }()
	s, err := newSystem(t, cfg)
	if err != nil {
		return err
	}
	s.inside = e.inside
	defer e.dismissAfter(ctx)()
	err = s.serve(ctx, e.watchFolder, e.watchBroker)
	if loss := e.loss(s.topology); loss != "" {
		s.logger.Warn(loss)
	}
	return err
}

// serve runs everything in one process.
//
//	publishers ─► exchange ─► route's queue ─► business ── ok ────────► `handled` event
//	                 │            ▲                │ error
//	                 │ tap        │                ├─ again ─► delay.<ms> ─► due ─┐
//	                 ▼            └── retry ◄──────┼──────────────────────────────┘
//	               index                           └─ never ─► poison ─► `poisoned` event
//	                 │                                                        │
//	                 └──────────► indexer ◄── log ◄── events ◄────────────────┘
//	                                 │
//	                                 ▼
//	                         the store
//
// pipeline has the handlers, indexer the rest; they share nothing but the broker.
// others run with them.
func (s system) serve(ctx context.Context, others ...func(context.Context, *vitals) error) error {
	store, err := s.store(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	s.logExposures()
	gctuning.Apply(s.cfg.Index.Memory)
	v := &vitals{system: s, registry: prometheus.NewRegistry(), store: store, begun: time.Now()}
	cfg := s.pipeline()
	cfg.Registerer = v.registry
	if v.handlers, err = pipeline.New(cfg); err != nil {
		return err
	}
	if v.http, err = listen(s.cfg.HTTP.Listen); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return v.handle(ctx) })
	group.Go(func() error { return v.index(ctx) })
	group.Go(func() error { return v.answer(ctx) })
	group.Go(func() error { return v.watchGaps(ctx) })
	group.Go(func() error { return v.retain(ctx) })
	group.Go(func() error { return v.reportLimits(ctx) })
	for _, other := range others {
		group.Go(func() error { return other(ctx, v) })
	}
	s.logger.Info("serving", "broker", s.cfg.AMQP.URL, "store", s.cfg.Store.URL,
		"routes", len(s.cfg.Routes), "tapped", len(s.cfg.Tap.Exchanges))
	err = group.Wait()
	s.logger.Info("stopped")
	return err
}

// handle runs the handlers, unless setup has to run first.
func (v *vitals) handle(ctx context.Context) error {
	refused := v.refuseFormer(ctx)
	if refused != nil {
		ended, end := context.WithCancel(ctx)
		end()
		ctx = ended // Run closes its connections
	}
	return errors.Join(refused, v.handlers.Run(ctx))
}

// index runs the indexer once the topology is there.
func (v *vitals) index(ctx context.Context) (err error) {
	select {
	case <-v.handlers.Running():
	case <-ctx.Done():
		return nil
	}
	if err := v.install(ctx, v.store); err != nil || ctx.Err() != nil {
		return err
	}
	consuming, err := v.connect("indexing", true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, consuming.Close()) }()
	sending, err := v.connect("setting aside", false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sending.Close()) }()
	publisher := rabbit.NewPublisher(sending, rabbit.PublisherConfig{})
	defer func() { err = errors.Join(err, publisher.Close()) }()
	source, err := v.source(ctx, consuming)
	if err != nil {
		return ignoreEnd(ctx, err)
	}
	cfg := v.indexer(source)
	cfg.Broker, cfg.Publisher, cfg.Store, cfg.Registerer = rabbit.Consumer{Connection: consuming}, rabbit.ExchangePublisher{Publisher: publisher}, v.store, v.registry
	x := indexer.New(cfg)
	v.indexing.Store(&indexing{x, []*rabbit.Connection{consuming, sending}})
	return x.Run(ctx)
}

// indexer returns the configuration of the indexer.
func (s system) indexer(source string) indexer.Config {
	return indexer.Config{
		Logger: s.storing, Format: s.format(), Memory: s.cfg.Index.Memory, Retention: s.retention(),
		Decoder: schemas.Decoder{Source: source, VHost: s.vhost, Topology: s.topology, Keys: s.secrets.stateKeys},
		Batch: indexer.Batch{
			Events: s.cfg.Index.Batch.Events, Bytes: s.cfg.Index.Batch.Bytes, Wait: s.cfg.Index.Batch.Wait,
		},
	}
}

const installPause = 2 * time.Second

// install installs the templates, and waits for a store that is away.
func (s system) install(ctx context.Context, store eventStore) error {
	for told := false; ; told = true {
		err := store.Install(ctx)
		var failed *eventstore.Error
		if err == nil || !errors.As(err, &failed) || failed.Kind == eventstore.BadRequest {
			return ignoreEnd(ctx, err)
		}
		if !told {
			s.storing.Warn("waiting for the store; messages stay in their queues", "store", s.cfg.Store.URL, "error", err)
		}
		select {
		case <-time.After(installPause):
		case <-ctx.Done():
			return nil
		}
	}
}

// ignoreEnd drops an error after the end of ctx: being stopped is no failure.
func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// streamsOf returns the streams that a command reads and writes.
func streamsOf(cmd *cobra.Command) terminal.Streams {
	return terminal.Streams{In: cmd.InOrStdin(), Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr()}
}

// bounded limits the requests of commands that a user waits for.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, commandPatience,
		fmt.Errorf("no answer within %s", commandPatience))
}

const commandPatience = 15 * time.Second
