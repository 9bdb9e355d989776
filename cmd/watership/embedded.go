package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/watershipmq/watership/internal/broker"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/schemas"
)

// embedded is a broker in this process. Everything reaches it through a socket,
// as it would RabbitMQ.
type embedded struct {
	broker     *broker.Broker // nil: there is none
	inside     string         // where this process reaches it
	management *http.Server
	data       string
}

// embed starts the broker where amqp.url says so, and puts its addresses into the
// configuration. The end of what it gives ends the broker.
func embed(cfg *config.Config, logger *slog.Logger) (*embedded, error) {
	if !cfg.AMQP.URL.IsEmbedded() {
		return &embedded{}, nil
	}
	if other, err := readRunning(cfg.Data); err == nil {
		return nil, fmt.Errorf("another watership runs in %s, process %d at %s: end it, or give another folder with --data",
			cfg.Data, other.PID, config.NewURL(other.AMQP))
	}
	if err := os.MkdirAll(cfg.Data, 0o700); err != nil {
		return nil, fmt.Errorf("making the data folder: %w", err)
	}
	e := &embedded{broker: broker.New(broker.Config{Logger: logger}), data: cfg.Data}
	if err := e.start(cfg); err != nil {
		return nil, errors.Join(err, e.end())
	}
	return e, nil
}

// start listens, and lets other commands know where.
func (e *embedded) start(cfg *config.Config) error {
	address, err := e.listen(cfg.AMQP.Listen)
	if err != nil {
		return err
	}
	inside, err := e.broker.ListenInside("127.0.0.1:0")
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening for the management API of the embedded broker: %w", err)
	}
	e.management = &http.Server{Handler: e.broker.Management(), ReadHeaderTimeout: vitalsTimeout}
	go func() { _ = e.management.Serve(listener) }() // until end closes it
	login := url.UserPassword("guest", "guest")
	amqp := url.URL{Scheme: "amqp", User: login, Host: reachable(address), Path: "/"}
	e.inside = (&url.URL{Scheme: "amqp", User: login, Host: inside.String(), Path: "/"}).String()
	management := url.URL{Scheme: "http", User: login, Host: listener.Addr().String()}
	cfg.AMQP.URL, cfg.AMQP.ManagementURL = config.NewURL(amqp.String()), config.NewURL(management.String())
	store := cfg.Store.URL.Reveal()
	if path := cfg.Store.URL.File(); path != "" {
		if path, err = filepath.Abs(path); err != nil {
			return fmt.Errorf("finding the store: %w", err)
		}
		store = "sqlite:" + path
	}
	return running{os.Getpid(), amqp.String(), management.String(), store}.announce(e.data)
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
	return context.AfterFunc(ctx, e.broker.Dismiss)
}

// loss says what is gone with the broker; "" where nothing is.
func (e *embedded) loss(topology schemas.Topology) string {
	if e.broker == nil {
		return ""
	}
	all, unrecorded := 0, 0
	for queue, messages := range e.broker.Kept("/") {
		all += messages
		if slices.Contains(topology.Indexed(), queue) {
			unrecorded += messages
		}
	}
	if all == 0 {
		return ""
	}
	return fmt.Sprintf("gone with the broker, which is in memory only: %s in its queues, %d of them not recorded yet", plural(all, "message"), unrecorded)
}

// end leaves nothing behind but the store.
func (e *embedded) end() error {
	if e.broker == nil {
		return nil
	}
	err := os.Remove(runningFile(e.data))
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	if e.management != nil {
		err = errors.Join(err, e.management.Close())
	}
	return errors.Join(err, e.broker.Close())
}
