package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/broker"
	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/cli/shop"
	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/render/quantity"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/internal/server"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/system/embedded"
	"github.com/watershipmq/watership/internal/system/runfile"
)

// dev holds the arguments of `dev`.
type dev struct {
	terminal.Streams
	screen   terminal.Screen
	sys      *system.System
	settings config.Config // with the addresses of the embedded broker
	shop     *shop.Shop    // nil: --empty
	console  string        // URL; "": http.listen is off
	limits   broker.Limits
	load     func() (config.Config, error)

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

Other commands in the same folder connect to it automatically, and have its
configuration file unless --config or WATERSHIP_CONFIG names another. They do neither
if amqp.url, store.url or a password is configured. A folder can have one dev at a time.`,
		Example: "  watership dev\n  watership dev --empty --config watership.yaml\n  watership dev --data /tmp/shop --amqp-listen 127.0.0.1:5673 --rate 50",
		Args:    exactArgs(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !(d.rate > 0 && d.rate <= maxOrders) {
				return usagef("--rate %v: expected orders a second, above 0 and up to %d", d.rate, maxOrders)
			}
			d.load = func() (config.Config, error) { return devConfig(from) }
			cfg, err := d.load()
			if err != nil {
				return err
			}
			d.Streams, d.screen = streamsOf(cmd), from.screen(cmd.OutOrStdout())
			return d.serve(cmd.Context(), cfg)
		},
	}
	cmd.Flags().BoolVar(&d.empty, "empty", false, "run no example shop, only the configuration")
	cmd.Flags().Uint64Var(&d.seed, "seed", 1, "seed of the example's random orders")
	cmd.Flags().Float64Var(&d.rate, "rate", usualOrders, "orders per second")
	return cmd
}

const (
	usualOrders = 5    // a second
	maxOrders   = 1000 // a second
)

// devRetention is shorter than the default: the example alone writes
// some 8 GB a day.
const devRetention = 24 * time.Hour

// devListen is the address of the console, unless its port is in use.
const devListen = "127.0.0.1:8181"

// devConfig returns the configuration with the embedded broker and store as defaults. It
// refuses any other broker, since the example would publish there.
func devConfig(from *settings) (config.Config, error) {
	cfg, err := config.Load(from.sources(map[string]string{"amqp.url": config.Embedded, "log.level": "error"}))
	if err != nil {
		return cfg, err
	}
	if !cfg.AMQP.URL.IsEmbedded() {
		return cfg, usagef("dev brings its own broker, and amqp.url is %s: leave that out, or run watership serve", cfg.AMQP.URL)
	}
	if !cfg.IsSet("http.listen") {
		cfg.HTTP.Listen = devListen
	}
	if cfg.IsSet("store.url") {
		return cfg, nil
	}
	cfg.Store.URL = config.NewURL("sqlite:" + runfile.StoreFile(cfg.Data))
	if !cfg.IsSet("store.retention.traffic") {
		cfg.Store.Retention.Traffic = devRetention
	}
	if !cfg.IsSet("store.retention.failures") {
		cfg.Store.Retention.Failures = devRetention
	}
	return cfg, nil
}

// serve runs everything on an embedded broker, and prints at the end how many messages
// are lost with it.
func (d *dev) serve(ctx context.Context, cfg config.Config) (err error) {
	made := d.systemConfig(cfg)
	made.Programs = programsOf(ctx)
	d.sys, err = system.Start(ctx, made)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.sys.Close()) }()
	d.settings = d.sys.Settings()
	more := server.Config{Reload: d.load, FreePort: !cfg.IsSet("http.listen")}
	if !d.empty {
		if err := d.addShop(ctx, &more); err != nil {
			return err
		}
	}
	s, err := server.New(ctx, d.sys, more)
	if err != nil {
		return err
	}
	err = serve(ctx, s, func(ctx context.Context) error { return d.run(ctx, s) })
	if loss := lossText(d.sys.Loss()); loss != "" {
		fmt.Fprintln(d.Out, loss)
	}
	return err
}

// systemConfig has warnings of the store logged unless log.level is set: the example makes
// messages fail, but their events must be recorded.
func (d *dev) systemConfig(cfg config.Config) system.Config {
	made := system.Config{Settings: cfg, Name: "dev", Logger: newLogger(d.Streams, cfg.Log), Broker: d.limits}
	if !cfg.IsSet("log.level") {
		made.StoreLogger = newLogger(d.Streams, config.Log{Level: slog.LevelWarn, Format: cfg.Log.Format})
	}
	return made
}

// addShop adds the example shop to a server. It opens with publishOrders.
func (d *dev) addShop(ctx context.Context, to *server.Config) error {
	first, err := d.firstOrder(ctx)
	if err != nil {
		return err
	}
	d.shop = shop.New(shop.Config{Seed: d.seed, Rate: d.rate, First: first})
	to.Taps, to.Routes = d.shop.Taps(), d.shop.Routes()
	return nil
}

// firstOrder is one that is not in the store yet, where an earlier dev may have
// left some. A replay counts as an order, so numbers may be left out.
func (d *dev) firstOrder(ctx context.Context) (int, error) {
	store, err := d.sys.Store(ctx)
	if err != nil {
		return 0, err
	}
	n, err := store.Count(ctx, eventstore.Selection{Query: kql.And{kql.FieldIs("event.action", "published"), kql.FieldIs("messaging.destination.name", shop.Orders)}})
	var failed *eventstore.Error
	if errors.As(err, &failed) && failed.Kind == eventstore.Unauthorized { // not made yet
		return 1, nil
	}
	return int(n) + 1, err
}

// run prints addresses and hints, and runs the example, while the server runs.
func (d *dev) run(ctx context.Context, s *server.Server) error {
	if !awaitReady(ctx, s) {
		return nil
	}
	if address := s.Address(); address != nil {
		d.console = fmt.Sprintf("%s://%s", d.scheme(), address)
	}
	d.printAddresses()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	hints := make(chan error, 1)
	go func() { defer stop(); hints <- d.printHints(ctx) }()
	var err error
	if d.shop != nil {
		err = d.publishOrders(ctx)
		stop()
	}
	err = errors.Join(err, unlessEnded(ctx, <-hints))
	fmt.Fprintln(d.Out, "Ending when the handlers have finished. Another Ctrl-C ends it at once.")
	return err
}

// publishOrders runs the example until ctx ends. It publishes as other clients do, so a
// full broker blocks it. It does not wait for the confirm of its last order.
func (d *dev) publishOrders(ctx context.Context) error {
	conn, err := d.sys.Dial(ctx)
	if err != nil {
		return unlessEnded(ctx, err)
	}
	publisher := rabbit.NewPublisher(conn, rabbit.PublisherConfig{StopTimeout: time.Millisecond})
	err = d.shop.Open(ctx, func(ctx context.Context, m rabbit.Message) (func(context.Context) error, error) {
		pending, err := publisher.Send(ctx, m)
		if err != nil {
			return nil, err
		}
		return pending.Wait, nil
	})
	return errors.Join(err, unlessEnded(ctx, publisher.Close()))
}

// unlessEnded drops an error after the end of ctx: being stopped is no failure.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

const devPoll = 50 * time.Millisecond

// awaitReady waits until handlers and indexer consume; false if ctx ends before.
func awaitReady(ctx context.Context, s *server.Server) bool {
	for s.Ready(ctx) != nil {
		if backoff.Sleep(ctx, devPoll) != nil {
			return false
		}
	}
	return true
}

func (d *dev) printAddresses() {
	fmt.Fprint(d.Out, "Watership runs here, on embedded parts. Ctrl-C ends it.\n\n")
	if d.console != "" {
		fmt.Fprintf(d.Out, "  console %s%s\n", d.console, inUse(devListen, d.console, d.settings.IsSet("http.listen")))
	}
	broker := d.settings.AMQP.URL.Reveal()
	fmt.Fprintf(d.Out, `  broker  %s%s  (in memory only, publishers wait at 256 MiB; gone at the end)
  store   %s  (keeps traffic for %s, failures for %s)
`, broker, inUse(embedded.DefaultListen, broker, d.settings.IsSet("amqp.listen")), d.settings.Store.URL,
		quantity.FormatDuration(d.settings.Store.Retention.Traffic), quantity.FormatDuration(d.settings.Store.Retention.Failures))
	fmt.Fprintln(d.Out)
}

// inUse says why an address is not the usual one, unless it is configured.
func inUse(usual, address string, configured bool) string {
	if configured || strings.HasSuffix(address, usual) {
		return ""
	}
	_, port, _ := net.SplitHostPort(usual)
	return fmt.Sprintf("  (port %s is in use)", port)
}

func (d *dev) scheme() string {
	if d.settings.HTTP.TLS.Cert != "" {
		return "https"
	}
	return "http"
}

// commandPrefix returns the start of a command line for other commands.
func (d *dev) commandPrefix() string {
	name := wording.Quoted(os.Args[0])
	if path, err := os.Executable(); err == nil && isTemporary(path) {
		name = "go run ./cmd/watership"
	}
	if d.settings.IsSet("data") {
		name += " --data " + wording.Quoted(d.settings.Data)
	}
	return name
}
