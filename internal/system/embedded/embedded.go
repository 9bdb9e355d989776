// Package embedded runs the embedded broker in the process of serve, and announces it to the
// commands that run in the same data folder.
package embedded

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/watershipmq/watership/broker"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/system/freeport"
	"github.com/watershipmq/watership/internal/system/runfile"
)

// Broker is the broker of this process. All clients reach it through a socket, as
// they would RabbitMQ. Its methods accept nil: none exists.
type Broker struct {
	broker      *broker.Broker
	internalURL string // for the parts of this process
	management  *http.Server
	folder      *runfile.Folder
	path        string // of folder
}

// Start starts a broker if amqp.url is embedded://, and puts its addresses into
// the settings. Else it returns nil.
func Start(ctx context.Context, settings *config.Config, cfg broker.Config) (*Broker, error) {
	if !settings.AMQP.URL.IsEmbedded() {
		return nil, nil
	}
	folder, err := runfile.Acquire(ctx, settings.Data)
	var held *runfile.LockedError
	if errors.As(err, &held) {
		return nil, fmt.Errorf("%w: end it, or give another folder for data", held)
	}
	if err != nil {
		return nil, err
	}
	cfg.Instance = rand.Text()
	e := &Broker{broker: broker.New(cfg), folder: folder, path: settings.Data}
	if err := e.start(settings, cfg.Instance); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// start listens, and announces the addresses to other commands.
func (e *Broker) start(settings *config.Config, instance string) error {
	if settings.Store.URL.File() == runfile.StoreFile(settings.Data) {
		if err := runfile.CheckStore(runfile.StoreFile(settings.Data), settings.Redact.SubjectKeysFile); err != nil {
			return err
		}
	}
	address, err := e.listen(settings.AMQP.Listen)
	if err != nil {
		return err
	}
	internal, err := e.broker.ListenInternal("127.0.0.1:0")
	if err != nil {
		return err
	}
	management, err := e.serveManagement()
	if err != nil {
		return err
	}
	login := url.UserPassword("guest", "guest")
	at := func(scheme, host string) string { return (&url.URL{Scheme: scheme, User: login, Host: host}).String() }
	e.internalURL = at("amqp", internal.String())
	process := runfile.Running{
		PID: os.Getpid(), Instance: instance, AMQP: at("amqp", reachable(address)), Management: at("http", management.String()),
	}
	settings.AMQP.URL, settings.AMQP.ManagementURL = config.NewURL(process.AMQP), config.NewURL(process.Management)
	if path := settings.Store.URL.File(); path != "" {
		if path, err = filepath.Abs(path); err != nil {
			return fmt.Errorf("finding the store: %w", err)
		}
		process.Store = "sqlite:" + path
	}
	if path := settings.File(); path != "" {
		if process.Config, err = filepath.Abs(path); err != nil {
			return fmt.Errorf("finding the configuration file: %w", err)
		}
	}
	return e.folder.Announce(process)
}

// serveManagement serves the management API of the broker until Close.
func (e *Broker) serveManagement() (net.Addr, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for the management API of the embedded broker: %w", err)
	}
	e.management = &http.Server{Handler: e.broker.Management(), ReadHeaderTimeout: headerTimeout}
	go func() { _ = e.management.Serve(listener) }()
	return listener.Addr(), nil
}

const headerTimeout = 3 * time.Second

const folderInterval = time.Second

// WatchFolder returns an error when the data folder is deleted or replaced: no command
// would find the store.
func (e *Broker) WatchFolder(ctx context.Context) error {
	if e == nil {
		return nil
	}
	ticker := time.NewTicker(folderInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if e.folder.Gone() {
			return fmt.Errorf("the data folder %s was deleted while this process had its store in it", e.path)
		}
	}
}

// WatchListeners returns an error when a listener of the broker fails.
func (e *Broker) WatchListeners(ctx context.Context) error {
	if e == nil {
		return nil
	}
	select {
	case err := <-e.broker.Failed():
		return fmt.Errorf("the embedded broker no longer accepts connections: %w", err)
	case <-ctx.Done():
		return nil
	}
}

// DefaultListen is the address of the broker unless one is configured or its port is in use.
const DefaultListen = "127.0.0.1:5672"

// listen listens on an address; without one on RabbitMQ's port, or another if that is in
// use.
func (e *Broker) listen(address string) (net.Addr, error) {
	if address != "" {
		got, err := e.broker.Listen(address)
		if err != nil {
			err = fmt.Errorf("amqp.listen %s: %w", address, err)
		}
		return got, err
	}
	return freeport.Listen(DefaultListen, e.broker.Listen)
}

// reachable returns an address at which clients reach a listener on every interface.
func reachable(address net.Addr) string {
	tcp, ok := address.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return address.String()
	}
	return net.JoinHostPort("127.0.0.1", fmt.Sprint(tcp.Port))
}

// CloseExternalAfter closes the connections of other processes once ctx ends, so that
// the server can finish its messages however full the broker is.
func (e *Broker) CloseExternalAfter(ctx context.Context) (stop func() bool) {
	if e == nil {
		return func() bool { return true }
	}
	return context.AfterFunc(ctx, e.broker.CloseExternal)
}

// QueueLengths returns the numbers of messages in the queues; none without a broker.
func (e *Broker) QueueLengths() map[string]int {
	if e == nil {
		return nil
	}
	return e.broker.QueueLengths("/")
}

// URL returns the address for the parts of this process, which is limited like any client;
// "" without a broker.
func (e *Broker) URL() string {
	if e == nil {
		return ""
	}
	return e.internalURL
}

// Close leaves only the store in the data folder.
func (e *Broker) Close() error {
	if e == nil {
		return nil
	}
	var err error
	if e.management != nil {
		err = e.management.Close()
	}
	return errors.Join(err, e.broker.Close(), e.folder.Release())
}
