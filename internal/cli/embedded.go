package cli

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
	"slices"
	"syscall"
	"time"

	"github.com/watershipmq/watership/broker"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/runfile"
	"github.com/watershipmq/watership/internal/terminal"
	"github.com/watershipmq/watership/schemas"
)

// embedded is a broker in this process. Everything reaches it through a socket,
// as it would RabbitMQ.
type embedded struct {
	broker     *broker.Broker // nil: there is none
	inside     string         // where this process reaches it
	management *http.Server
	folder     *runfile.Folder
	data       string // path of folder
}

// embed starts a broker where amqp.url says so, and puts its addresses into the
// configuration. The end of what it gives ends the broker.
func embed(ctx context.Context, cfg *config.Config, as broker.Config) (*embedded, error) {
	if !cfg.AMQP.URL.IsEmbedded() {
		return &embedded{}, nil
	}
	folder, err := runfile.Acquire(ctx, cfg.Data)
	var held *runfile.HeldError
	if errors.As(err, &held) {
		return nil, fmt.Errorf("%w: end it, or give another folder with --data", held)
	}
	if err != nil {
		return nil, err
	}
	as.Instance = rand.Text()
	e := &embedded{broker: broker.New(as), folder: folder, data: cfg.Data}
	if err := e.start(cfg, as.Instance); err != nil {
		return nil, errors.Join(err, e.end())
	}
	return e, nil
}

// start listens, and lets other commands know where.
func (e *embedded) start(cfg *config.Config, instance string) error {
	if err := e.checkStore(cfg); err != nil {
		return err
	}
	address, err := e.listen(cfg.AMQP.Listen)
	if err != nil {
		return err
	}
	inside, err := e.broker.ListenInternal("127.0.0.1:0")
	if err != nil {
		return err
	}
	management, err := e.manage()
	if err != nil {
		return err
	}
	login := url.UserPassword("guest", "guest")
	at := func(scheme, host string) string { return (&url.URL{Scheme: scheme, User: login, Host: host}).String() }
	e.inside = at("amqp", inside.String())
	running := runfile.Running{
		PID: os.Getpid(), Instance: instance, AMQP: at("amqp", reachable(address)), Management: at("http", management.String()),
	}
	cfg.AMQP.URL, cfg.AMQP.ManagementURL = config.NewURL(running.AMQP), config.NewURL(running.Management)
	if path := cfg.Store.URL.File(); path != "" {
		if path, err = filepath.Abs(path); err != nil {
			return fmt.Errorf("finding the store: %w", err)
		}
		running.Store = "sqlite:" + path
	}
	return e.folder.Announce(running)
}

// checkStore refuses what is in place of the store that dev has by default.
func (e *embedded) checkStore(cfg *config.Config) error {
	if path := cfg.Store.URL.File(); path != storeFile(cfg.Data) {
		return nil
	}
	return runfile.CheckStore(storeFile(cfg.Data))
}

// manage serves the management API of the broker until end closes it.
func (e *embedded) manage() (net.Addr, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for the management API of the embedded broker: %w", err)
	}
	e.management = &http.Server{Handler: e.broker.Management(), ReadHeaderTimeout: vitalsTimeout}
	go func() { _ = e.management.Serve(listener) }()
	return listener.Addr(), nil
}

const folderPoll = time.Second

// watchFolder fails when the data folder is deleted, or another is in its place:
// what is written then can be found by nobody.
func (e *embedded) watchFolder(ctx context.Context, _ *vitals) error {
	if e.folder == nil {
		return nil
	}
	ticker := time.NewTicker(folderPoll)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if e.folder.Gone() {
			return fmt.Errorf("the data folder %s was deleted while this process had its store in it", e.data)
		}
	}
}

// watchBroker fails when a listener of the broker does.
func (e *embedded) watchBroker(ctx context.Context, _ *vitals) error {
	if e.broker == nil {
		return nil
	}
	select {
	case err := <-e.broker.Failed():
		return fmt.Errorf("the embedded broker takes no connections any more: %w", err)
	case <-ctx.Done():
		return nil
	}
}

// listen takes RabbitMQ's port where nothing else is asked for and it is free.
func (e *embedded) listen(address string) (net.Addr, error) {
	if address != "" {
		got, err := e.broker.Listen(address)
		if err != nil {
			err = fmt.Errorf("amqp.listen %s: %w", address, err)
		}
		return got, err
	}
	got, err := e.broker.Listen("127.0.0.1:5672")
	if errors.Is(err, syscall.EADDRINUSE) {
		return e.broker.Listen("127.0.0.1:0")
	}
	return got, err
}

// reachable is where to connect to a listener on every interface.
func reachable(address net.Addr) string {
	tcp, ok := address.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return address.String()
	}
	return net.JoinHostPort("127.0.0.1", fmt.Sprint(tcp.Port))
}

// dismissAfter ends everybody else's part in the broker once ctx ends, so that
// what is in hand here can be finished however full the broker is.
func (e *embedded) dismissAfter(ctx context.Context) (stop func() bool) {
	if e.broker == nil {
		return func() bool { return true }
	}
	return context.AfterFunc(ctx, e.broker.CloseExternal)
}

// loss says what is gone with the broker; "" where nothing is.
func (e *embedded) loss(topology schemas.Topology) string {
	if e.broker == nil {
		return ""
	}
	all, unrecorded := 0, 0
	for queue, messages := range e.broker.QueueLengths("/") {
		all += messages
		if slices.Contains(topology.Indexed(), queue) {
			unrecorded += messages
		}
	}
	if all == 0 {
		return ""
	}
	return fmt.Sprintf("gone with the broker, which is in memory only: %s in its queues, %d of them not recorded yet", terminal.Plural(all, "message"), unrecorded)
}

// end leaves nothing behind but the store.
func (e *embedded) end() error {
	if e.broker == nil {
		return nil
	}
	var err error
	if e.management != nil {
		err = e.management.Close()
	}
	return errors.Join(err, e.broker.Close(), e.folder.Release())
}
