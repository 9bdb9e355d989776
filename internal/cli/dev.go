package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/broker"
	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/shop"
	"github.com/watershipmq/watership/internal/terminal"
)

// dev is serve on embedded parts, as it was asked for.
type dev struct {
	terminal.Streams
	system
	screen terminal.Screen

	empty bool
	seed  uint64
	rate  float64
}

func newDev(from *settings) *cobra.Command {
	var d dev
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Try Watership: run it with an embedded broker, an embedded store and an example shop",
		Long: `Run serve with an embedded AMQP broker, to which programs in any language can
connect, and an embedded store in one file. There is nothing to install.

The broker keeps messages in memory only, and blocks publishers at 256 MiB. The
store stays in the folder --data. Ctrl-C stops dev without draining the queues and
prints how many messages are lost; a second Ctrl-C stops it at once. In production,
use RabbitMQ and Elasticsearch.

Without --empty, dev runs an example shop: orders, payments and shipments on topic,
direct and fanout exchanges. Some fail for a while, some arrive too early, and some
can never succeed.

Other commands in the same folder connect to it automatically, unless amqp.url,
store.url or a password is configured. A folder can have one dev at a time.`,
		Example: "  watership dev\n  watership dev --empty --config watership.yaml\n  watership dev --data /tmp/shop --amqp-listen 127.0.0.1:5673 --rate 50",
		Args:    exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !(d.rate > 0 && d.rate <= mostOrders) {
				return usagef("--rate %v: expected orders a second, above 0 and up to %d", d.rate, mostOrders)
			}
			cfg, err := configOfDev(from)
			if err != nil {
				return err
			}
			d.Streams, d.screen = streamsOf(cmd), from.screen(cmd.OutOrStdout())
			return d.start(cmd.Context(), cfg)
		},
	}
	cmd.Flags().BoolVar(&d.empty, "empty", false, "run no example shop, only the configuration")
	cmd.Flags().Uint64Var(&d.seed, "seed", 1, "seed of the example's random orders")
	cmd.Flags().Float64Var(&d.rate, "rate", 5, "orders per second")
	return cmd
}

const mostOrders = 1000 // a second

// devRetention is shorter than that of a store for production: the example alone writes
// some 8 GB a day.
const devRetention = 24 * time.Hour

// configOfDev has the embedded parts where nothing else is said. The example is
// not let loose on a broker of somebody's.
func configOfDev(from *settings) (config.Config, error) {
	cfg, err := from.loadOver(map[string]string{"amqp.url": config.Embedded, "log.level": "error"})
	if err != nil {
		return cfg, err
	}
	if !cfg.AMQP.URL.IsEmbedded() {
		return cfg, usagef("dev brings its own broker, and amqp.url is %s: leave that out, or run watership serve", cfg.AMQP.URL)
	}
	if cfg.IsSet("store.url") {
		return cfg, nil
	}
	cfg.Store.URL = config.NewURL("sqlite:" + storeFile(cfg.Data))
	if !cfg.IsSet("store.retention.traffic") {
		cfg.Store.Retention.Traffic = devRetention
	}
	if !cfg.IsSet("store.retention.failures") {
		cfg.Store.Retention.Failures = devRetention
	}
	return cfg, nil
}

func (d *dev) start(ctx context.Context, cfg config.Config) error {
	e, err := embed(ctx, &cfg, broker.Config{Logger: newLogger(d.Streams, cfg.Log)})
	if err != nil {
		return err
	}
	return errors.Join(d.on(ctx, e, cfg), e.end())
}

// on runs everything on a broker, and says at the end what is gone with it.
func (d *dev) on(ctx context.Context, e *embedded, cfg config.Config) (err error) {
	if d.system, err = newSystem(d.Streams, cfg); err != nil {
		return err
	}
	d.inside = e.inside
	defer e.dismissAfter(ctx)()
	defer func() {
		if loss := e.loss(d.topology); loss != "" {
			fmt.Fprintln(d.Out, loss)
		}
	}()
	if !cfg.IsSet("log.level") { // that messages fail is what the example is for, that they are not recorded is not
		d.storing = newLogger(d.Streams, config.Log{Level: slog.LevelWarn, Format: cfg.Log.Format})
	}
	if d.empty {
		return d.serve(ctx, d.show, e.watchFolder, e.watchBroker)
	}
	first, err := d.firstOrder(ctx)
	if err != nil {
		return err
	}
	d.shop = shop.New(shop.Config{Seed: d.seed, Rate: d.rate, First: first})
	return d.serve(ctx, d.show, e.watchFolder, e.watchBroker)
}

// firstOrder is one that is not in the store yet, where an earlier dev may have
// left some. A replay counts as an order, so numbers may be left out.
func (d *dev) firstOrder(ctx context.Context) (int, error) {
	store, err := d.store(ctx)
	if err != nil {
		return 0, err
	}
	defer store.Close()
	n, err := store.Count(ctx, eventstore.Selection{Query: kql.And{is("event.action", "published"), is("messaging.destination.name", shop.Orders)}})
	var failed *eventstore.Error
	if errors.As(err, &failed) && failed.Kind == eventstore.Unauthorized { // not made yet
		return 1, nil
	}
	return int(n) + 1, err
}

// show says what there is to see, while everything else runs.
func (d *dev) show(ctx context.Context, v *vitals) error {
	if !d.ready(ctx, v) {
		return nil
	}
	d.greet(v)
	told := make(chan error, 1)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() { defer stop(); told <- d.tell(ctx, v.store) }()
	var err error
	if d.shop != nil {
		err = d.trade(ctx)
		stop()
	}
	err = errors.Join(err, ignoreEnd(ctx, <-told))
	fmt.Fprintln(d.Out, "Ending when the handlers have finished. Another Ctrl-C ends it at once.")
	return err
}

// trade runs the example until ctx ends. It publishes as others do, and so is
// stopped where the broker is full. Nobody waits for its last order.
func (d *dev) trade(ctx context.Context) error {
	conn, err := d.reach(ctx, "dev")
	if err != nil {
		return ignoreEnd(ctx, err)
	}
	publisher := rabbit.NewPublisher(conn, rabbit.PublisherConfig{StopTimeout: time.Millisecond})
	err = d.shop.Open(ctx, func(ctx context.Context, m rabbit.Message) (func(context.Context) error, error) {
		pending, err := publisher.Send(ctx, m)
		if err != nil {
			return nil, err
		}
		return pending.Wait, nil
	})
	return errors.Join(err, ignoreEnd(ctx, errors.Join(publisher.Close(), conn.Close())))
}

const devPoll = 50 * time.Millisecond

// ready waits until handlers and indexer consume; false where ctx ended before.
func (d *dev) ready(ctx context.Context, v *vitals) bool {
	for v.ready(ctx) != nil {
		select {
		case <-time.After(devPoll):
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// greet says where everything is.
func (d *dev) greet(v *vitals) {
	fmt.Fprintf(d.Out, `Watership runs here, on embedded parts. Ctrl-C ends it.

  broker  %s  (in memory only, publishers wait at 256 MiB; gone at the end)
  store   %s  (keeps traffic for %s, failures for %s)
`, d.cfg.AMQP.URL.Reveal(), d.cfg.Store.URL,
		config.FormatDuration(d.cfg.Store.Retention.Traffic), config.FormatDuration(d.cfg.Store.Retention.Failures))
	if v.http != nil {
		fmt.Fprintf(d.Out, "  http    http://%s/metrics, /healthz, /readyz\n", v.http.Addr())
	}
	fmt.Fprintln(d.Out)
}

// command is how whoever started this can run another command.
func (d *dev) command() string {
	name := terminal.Quoted(os.Args[0])
	if path, err := os.Executable(); err == nil && isTemporary(path) {
		name = "go run ./cmd/watership"
	}
	if d.cfg.IsSet("data") {
		name += " --data " + terminal.Quoted(d.cfg.Data)
	}
	return name
}
