// Package app runs Watership from a configuration, without command line, terminal and
// signals: for the commands, an HTTP API or a console.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/broker"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/embedded"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/secret"
	"github.com/watershipmq/watership/replayer/transform"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/subscription"
)

// Config holds the settings of an App.
type Config struct {
	Settings config.Config

	// Name is part of the name of the App's connection on RabbitMQ's management page.
	Name string

	// Logger logs the problems of connections and of the running parts.
	Logger *slog.Logger

	// StoreLogger logs problems that keep events out of the store. Nil: Logger.
	StoreLogger *slog.Logger

	// Programs run the programs of replays. Nil: this process runs them, without a limit of
	// memory.
	Programs *transform.Processes

	// Broker limits the embedded broker that Start makes.
	Broker broker.Limits
}

// App opens connections to RabbitMQ and the store when they are first asked for. A
// second caller gets the same connection.
type App struct {
	Language
	settings    config.Config
	name        string
	logger      *slog.Logger
	storeLogger *slog.Logger
	topology    schemas.Topology
	login       string
	vhost       string
	secrets     secret.Secrets
	programs    *transform.Processes
	embedded    *embedded.Broker // broker of this process; nil: none
	running     running          // broker of another process

	server  atomic.Pointer[Server]        // that Serve runs; nil: none
	current atomic.Pointer[config.Config] // settings with the latest routes and policies; nil: they are as at the start

	mu        sync.Mutex // guards the fields below
	events    EventStore
	conn      *rabbit.Connection
	publisher *rabbit.Publisher

	subscriptions *subscription.Subscriptions

	closers []func() error // in the order of opening
}

// New makes an App that uses the servers of the configuration, or the embedded broker
// and the store of the process that runs on the data folder. It asks no server. Errors
// in settings are InputErrors.
func New(cfg Config) (*App, error) {
	settings, found, err := findRunning(cfg.Settings.Clone())
	if err != nil {
		return nil, err
	}
	cfg.Settings = settings
	a, err := newApp(cfg)
	if err != nil {
		return nil, err
	}
	a.running = found
	return a, nil
}

// Start makes an App for Serve. If amqp.url is embedded://, it starts the embedded
// broker, which Close ends.
func Start(ctx context.Context, cfg Config) (*App, error) {
	cfg.Settings = cfg.Settings.Clone()
	e, err := embedded.Start(ctx, &cfg.Settings, broker.Config{Logger: cfg.Logger, Limits: cfg.Broker})
	if err != nil {
		return nil, err
	}
	a, err := newApp(cfg)
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	a.embedded = e
	a.closers = append(a.closers, e.Close)
	return a, nil
}

func newApp(cfg Config) (*App, error) {
	settings := cfg.Settings
	files, err := secret.Read(&settings)
	if err != nil {
		return nil, InputError{err}
	}
	var uri amqp091.URI
	if !settings.AMQP.URL.IsEmbedded() {
		if uri, err = amqp091.ParseURI(settings.AMQP.URL.Reveal()); err != nil {
			return nil, inputErrorf("amqp.url %s cannot be read", settings.AMQP.URL)
		}
		if _, err := rabbit.NewManagement(settings.AMQP.ManagementURL.Reveal(), nil); err != nil {
			return nil, inputErrorf("amqp.management_url: %w", err)
		}
	}
	a := &App{
		Language: Language{formatOf(settings.Clone().Index)}, settings: settings, name: cfg.Name, logger: cfg.Logger, storeLogger: cfg.StoreLogger, topology: topologyOf(settings),
		login: rabbit.UserID(uri), vhost: uri.Vhost, secrets: files, programs: cfg.Programs,
	}
	if a.storeLogger == nil {
		a.storeLogger = a.logger
	}
	return a, nil
}

func formatOf(index config.Index) schemas.DocumentFormat {
	return schemas.DocumentFormat{
		Labels: index.Labels, NumericLabels: index.NumericLabels,
		NoBodyText: !index.Body.Text, NoBodyJSON: !index.Body.JSON, MaxValues: index.Body.MaxValues,
	}
}

func topologyOf(settings config.Config) schemas.Topology {
	topology := schemas.Topology{Prefix: settings.Topology.Prefix}
	if settings.Tap.WhenFull == "drop_oldest" {
		topology.IndexLimit = int64(settings.Tap.Limit)
	}
	topology.ClassicIndex = settings.Topology.QueueType != "classic" && settings.Tap.QueueType == "classic"
	return topology
}

// Settings returns the configuration with the addresses in use.
func (a *App) Settings() config.Config { return a.configured().Clone() }

// configured returns the settings with the latest routes and policies. The others are the settings of
// the start.
func (a *App) configured() *config.Config {
	if latest := a.current.Load(); latest != nil {
		return latest
	}
	return &a.settings
}

// Topology returns the names of Watership's exchanges and queues.
func (a *App) Topology() schemas.Topology { return a.topology }

// VHost returns the virtual host of amqp.url.
func (a *App) VHost() string { return a.vhost }

// Login returns the user of amqp.url.
func (a *App) Login() string { return a.login }

// Logger returns the logger of the running parts.
func (a *App) Logger() *slog.Logger { return a.logger }

// Sign signs the state of a message, if there are keys.
func (a *App) Sign(m rabbit.Message) rabbit.Message {
	verifier := schemas.Verifier{Topology: a.topology, Keys: a.secrets.StateKeys}
	m.Publishing = verifier.Sign(m.Exchange, m.RoutingKey, m.Publishing)
	return m
}

// Close closes the connections, the store and the embedded broker, the newest first.
func (a *App) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var failed []error
	for _, end := range slices.Backward(a.closers) {
		failed = append(failed, end())
	}
	a.events, a.conn, a.publisher, a.subscriptions, a.closers = nil, nil, nil, nil, nil
	return errors.Join(failed...)
}

// Loss counts the messages that Close deletes with the embedded broker, and how many of
// them are not recorded in the store.
func (a *App) Loss() (messages, unrecorded int) {
	for queue, n := range a.embedded.QueueLengths() {
		messages += n
		if slices.Contains(a.topology.Indexed(), queue) {
			unrecorded += n
		}
	}
	return messages, unrecorded
}

// InputError is returned for a setting or an argument that cannot be used, which is a
// mistake of the caller and no failure of a server.
type InputError struct{ Err error }

// Error implements error.
func (e InputError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e InputError) Unwrap() error { return e.Err }

func inputErrorf(format string, args ...any) error { return InputError{fmt.Errorf(format, args...)} }

// RequestTimeout bounds the requests that a caller waits for.
const RequestTimeout = 15 * time.Second

// WithTimeout returns a context that ends after RequestTimeout.
func WithTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, RequestTimeout, fmt.Errorf("no answer within %s", RequestTimeout))
}

// ignoreEnd drops an error after the end of ctx: being stopped is no failure.
func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
