package rabbit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// silentNode listens, and answers nothing, as a paused node does.
func silentNode(t *testing.T, address string) string {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Skipf("no node listens at %s: %v", address, err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// awayNode refuses connections.
func awayNode(t *testing.T) string {
	t.Helper()
	return rabbittest.FreeAddress(t)
}

// hostOf returns the host:port of a URL.
func hostOf(t *testing.T, address string) string {
	t.Helper()
	uri, err := amqp.ParseURI(address)
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort(uri.Host, fmt.Sprint(uri.Port))
}

// atNode returns the URL with another host.
func atNode(t *testing.T, from, host string) string {
	t.Helper()
	return strings.Replace(from, hostOf(t, from), host, 1)
}

// Nodes that are away or paused hold no connection up, in whichever order they are tried.
func TestANodeThatIsAwayCostsNoConnection(t *testing.T) {
	rabbittest.NoLeaks(t)
	b := rabbittest.Embedded(t)
	alive := hostOf(t, b.URL)
	silent, away := silentNode(t, "127.0.0.1:0"), awayNode(t)
	for range 5 { // in random order
		c := open(t, atNode(t, b.URL, silent), func(cfg *Config) {
			cfg.Nodes = []string{away, alive}
			cfg.DialTimeout, cfg.Backoff.Min = time.Hour, time.Hour // a second attempt does not help
		})
		queue := b.Queue(t, nil)
		waitAll(t, sendAll(t, publisher(t, c, 0), queue, 1))
	}
}

// A node that is cut off from the others takes messages and confirms none, but for those that it returns. Its
// publishers go on at another.
func TestPublisherLeavesANodeThatConfirmsNothing(t *testing.T) {
	rabbittest.NoLeaks(t)
	b := rabbittest.Embedded(t)
	queue := b.Queue(t, nil)
	cut, heal := b.Unconfirmed(t, queue)
	defer heal()
	c, connections := openAtFirst(t, cut, hostOf(t, b.URL))
	p := publisherWith(t, c, PublisherConfig{Silence: time.Second})
	all := sendAll(t, p, queue, 20)
	ctx, stop := context.WithCancel(t.Context())
	var returned sync.WaitGroup
	returned.Go(func() {
		for ctx.Err() == nil {
			_ = p.Publish(ctx, to("no queue", ""))
		}
	})
	waitAll(t, all)
	stop()
	returned.Wait()
	if n := connections(); n != 2 {
		t.Errorf("the publisher had %d connections, want 2", n)
	}
}

// A queue that confirms nothing, such as one without a majority, is no reason to leave a node by which others
// confirm.
func TestPublisherStaysAtANodeThatConfirmsOthers(t *testing.T) {
	rabbittest.NoLeaks(t)
	b := rabbittest.Embedded(t)
	stuck, queue := b.Queue(t, nil), b.Queue(t, nil)
	cut, heal := b.Unconfirmed(t, stuck)
	defer heal()
	c, connections := openAtFirst(t, cut, hostOf(t, b.URL))
	const silence = 3 * time.Second
	p := publisherWith(t, c, PublisherConfig{Silence: silence})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	held, err := p.Send(ctx, to(stuck, "held"))
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(2 * silence); time.Now().Before(end); time.Sleep(silence / 100) {
		waitAll(t, sendAll(t, p, queue, 1))
	}
	if n := connections(); n != 1 {
		t.Errorf("the publisher had %d connections, want 1", n)
	}
	cancel()
	if err := held.Wait(ctx); err == nil {
		t.Error("a message was confirmed whose confirms are dropped")
	}
}

// A message that is never confirmed costs few connections, since each may store a copy of it: confirms of others make
// the pauses no shorter.
func TestPublisherLeavesANodeLessOften(t *testing.T) {
	rabbittest.NoLeaks(t)
	b := rabbittest.Embedded(t)
	stuck, queue := b.Queue(t, nil), b.Queue(t, nil)
	cut, heal := b.Unconfirmed(t, stuck)
	defer heal()
	c := open(t, cut, func(cfg *Config) { cfg.Nodes = []string{hostOf(t, cut)} })
	connections := func() int { return c.status.get().connections }
	const silence = 200 * time.Millisecond
	p := publisherWith(t, c, PublisherConfig{Silence: silence})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	before := time.Now()
	held, err := p.Send(ctx, to(stuck, "held"))
	if err != nil {
		t.Fatal(err)
	}
	for had := 1; had < 4; had++ {
		last := before // when the publisher was seen at its node
		for at := time.Now(); connections() <= had; at = time.Now() {
			last = at
			time.Sleep(time.Millisecond)
		}
		if pause := time.Since(before); pause < silence<<(had-1)*9/10 {
			t.Errorf("the publisher left the node %d. time after %v, want the double each time", had, pause)
		}
		before = last
		waitAll(t, sendAll(t, p, queue, 1))
	}
	cancel()
	if err := held.Wait(ctx); err == nil {
		t.Error("a message was confirmed whose confirms are dropped")
	}
}

// openAtFirst opens a connection to a node, and lets later ones go to another node as well.
func openAtFirst(t *testing.T, url, other string) (c *Connection, connections func() int) {
	t.Helper()
	var connected atomic.Bool
	c = open(t, url, func(cfg *Config) {
		cfg.Nodes = []string{other}
		cfg.Dial = func(network, address string) (net.Conn, error) {
			if address == other && !connected.Load() {
				return nil, errors.New("not yet")
			}
			return net.Dial(network, address)
		}
	})
	if err := c.Do(t.Context(), func(*amqp.Channel) error { return nil }); err != nil {
		t.Fatal(err)
	}
	connected.Store(true)
	return c, func() int { return c.status.get().connections }
}

// A name with several addresses is as good as several names.
func TestAnAddressThatIsAwayCostsNoConnection(t *testing.T) {
	rabbittest.NoLeaks(t)
	b := rabbittest.Embedded(t)
	_, port, _ := net.SplitHostPort(hostOf(t, b.URL))
	silentNode(t, "127.0.0.2:"+port)
	for range 5 {
		c := open(t, atNode(t, b.URL, "rabbit.test:"+port), func(cfg *Config) {
			cfg.Lookup = func(context.Context, string) ([]string, error) {
				return []string{"127.0.0.3", "127.0.0.2", "127.0.0.1"}, nil
			}
			cfg.DialTimeout, cfg.Backoff.Min = time.Hour, time.Hour
		})
		waitAll(t, sendAll(t, publisher(t, c, 0), b.Queue(t, nil), 1))
	}
}

func TestConnectionsSpreadOverNodes(t *testing.T) {
	rabbittest.NoLeaks(t)
	b := rabbittest.Embedded(t)
	alive := hostOf(t, b.URL)
	var hosts []string
	arrived := make(chan int, 100)
	for i := range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		hosts = append(hosts, l.Addr().String())
		go func() {
			for {
				from, err := l.Accept()
				if err != nil {
					return
				}
				arrived <- i
				to, err := net.Dial("tcp", alive)
				if err != nil {
					from.Close()
					continue
				}
				go func() { _, _ = io.Copy(to, from); to.Close() }()
				go func() { _, _ = io.Copy(from, to); from.Close() }()
			}
		}()
	}
	seen := map[int]bool{}
	for range 60 { // the chance that one node gets none is 10^-10
		open(t, atNode(t, b.URL, hosts[0]), func(cfg *Config) { cfg.Nodes = hosts[1:] })
		seen[rabbittest.Receive(t, arrived)] = true
		if len(seen) == 3 {
			return
		}
	}
	t.Errorf("60 connections went to the nodes %v of 3", seen)
}

func TestErrorsOfNodes(t *testing.T) {
	first, second := awayNode(t), awayNode(t)
	log := new(rabbittest.Log)
	c := open(t, "amqp://guest:s3cret@"+first+"/", func(cfg *Config) { cfg.Nodes, cfg.Logger = []string{second}, log.Logger() })
	rabbittest.Eventually(t, "both nodes are tried", func() bool { return log.Count("cannot connect") > 0 })
	if err := c.Err(); !strings.Contains(err.Error(), first) || !strings.Contains(err.Error(), second) || strings.Contains(err.Error()+log.String(), "s3cret") {
		t.Error(err, log)
	}
	for _, node := range []string{"", "r2:5672,r3:5672", "amqp://guest:s3cret@r2", "r2/v", "u:s3cret@r2", "r2:x"} {
		_, err := Open(Config{URL: "amqp://guest:guest@r1/", Nodes: []string{node}})
		if err == nil || !strings.Contains(err.Error(), "expected host:port") || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v", node, err)
		}
	}
}
