package rabbit

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/broker"
	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

func TestOpenChecksTheURLAndHidesThePassword(t *testing.T) {
	for _, url := range []string{
		"http://user:secret@host/", "amqp://user:secret@host:port/", "amqp://user:sec ret@host/", "amqp://user:secret@host/%zz", "::secret",
		"amqp://user:secret@host/,amqp://user:secret@other/", "amqp://user:secret@host,other/",
	} {
		c, err := Open(Config{URL: url})
		if err == nil {
			c.Close()
			t.Errorf("%q was accepted", url)
			continue
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error shows the password: %v", url, err)
		}
	}
}

func TestUserID(t *testing.T) {
	for url, want := range map[string]string{
		"amqp://host": "guest", "amqp://shop:p@host": "shop", "amqps://shop:p@host?auth_mechanism=amqplain": "shop",
		"amqps://host?auth_mechanism=external": "", "amqps://shop:p@host?auth_mechanism=EXTERNAL&auth_mechanism=plain": "",
	} {
		uri, err := parseURL(url)
		if err != nil {
			t.Fatal(err)
		}
		if got := UserID(uri); got != want {
			t.Errorf("%s: %q", url, got)
		}
	}
}

func TestChannelSaysWhyThereIsNone(t *testing.T) {
	rabbittest.NoLeaks(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close() // nothing listens at the address now
	c := open(t, "amqp://user:secret@"+listener.Addr().String(), nil)
	rabbittest.Eventually(t, "an attempt", func() bool { return strings.Contains(c.Err().Error(), "connection refused") })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = c.Channel(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("got %v", err)
	}
}

func TestWrongPasswordIsTheReason(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		rabbittest.NoLeaks(t)
		c := open(t, strings.Replace(b.URL, "guest:guest", "guest:wrong", 1), nil)
		rabbittest.Eventually(t, "an attempt", func() bool { return strings.Contains(c.Err().Error(), "403") })
		if strings.Contains(c.Err().Error(), "wrong") {
			t.Errorf("the error shows the password: %v", c.Err())
		}
	})
}

// TestOtherInstanceIsRefused checks that a broker with another Instance at the same
// address is refused.
func TestOtherInstanceIsRefused(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		rabbittest.NoLeaks(t)
		c := open(t, b.URL, func(c *Config) { c.Instance = "meant" })
		rabbittest.Eventually(t, "an attempt", func() bool { return strings.Contains(c.Err().Error(), "another broker listens there") })
	})
}

func TestInstanceThatIsMeant(t *testing.T) {
	rabbittest.NoLeaks(t)
	b := broker.New(broker.Config{Instance: "meant"})
	address, err := b.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	c := open(t, "amqp://guest:guest@"+address.String(), func(c *Config) { c.Instance = "meant" })
	rabbittest.Eventually(t, "a connection", func() bool { return c.Err() == nil })
}

// In virtual time no attempt ends before the broker has accepted it.
func TestSilentBrokerIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var accepted sync.WaitGroup // ends with the connections
		dials := make(chan struct{}, 100)
		log := &rabbittest.Log{}
		c := open(t, "amqp://shop", func(cfg *Config) {
			cfg.Logger = log.Logger()
			cfg.Dial = func(string, string) (net.Conn, error) {
				ours, silent := net.Pipe()
				accepted.Go(func() { _, _ = io.Copy(io.Discard, silent) })
				dials <- struct{}{}
				return ours, nil
			}
		})
		for range 3 { // reconnects, and logs each event once
			rabbittest.Receive(t, dials)
		}
		if err := c.Err(); !strings.Contains(err.Error(), "no AMQP handshake within 10s") {
			t.Errorf("got %v", err)
		}
		if n := log.Count(""); n != 1 {
			t.Errorf("logged %d times:\n%s", n, log)
		}
		c.Close()
		accepted.Wait()
	})
}

func TestCloseInterruptsADialThatHangs(t *testing.T) {
	rabbittest.NoLeaks(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	c, err := Open(Config{URL: "amqp://" + listener.Addr().String(), DialTimeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, err := c.Channel(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed connection answers %v", err)
	}
}

func TestConnectionComesBackAndTellsOnce(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		rabbittest.NoLeaks(t)
		proxy := b.Proxy(t)
		log := &rabbittest.Log{}
		c := open(t, proxy.URL, func(cfg *Config) { cfg.Logger = log.Logger() })
		for range 2 {
			ch, err := c.Channel(testContext(t))
			if err != nil {
				t.Fatal(err)
			}
			closed := ch.NotifyClose(make(chan *amqp.Error, 1))
			proxy.Cut()
			rabbittest.Receive(t, closed)
			rabbittest.Eventually(t, "several failed attempts", func() bool {
				return c.Err() != nil && strings.Contains(c.Err().Error(), "refused")
			})
			proxy.Mend()
		}
		if _, err := c.Channel(testContext(t)); err != nil {
			t.Fatal(err)
		}
		if lost, back := log.Count("lost"), log.Count("connected to"); lost != 2 || back != 3 || log.Count("") != 5 {
			t.Errorf("lost %d times, connected %d times:\n%s", lost, back, log)
		}
	})
}

func TestConnectionCutInMidFrame(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		rabbittest.NoLeaks(t)
		proxy := b.Proxy(t)
		proxy.Add(`{"name":"cut","type":"limit_data","stream":"downstream","attributes":{"bytes":300}}`)
		for _, large := range []bool{false, true} {
			c := open(t, proxy.URL, func(cfg *Config) { cfg.LargeFrames = large })
			rabbittest.Eventually(t, "an attempt", func() bool { return !strings.Contains(c.Err().Error(), "not connected yet") })
		}
		c := open(t, proxy.URL, nil)
		proxy.Remove("cut")
		if _, err := c.Channel(testContext(t)); err != nil {
			t.Fatal(err)
		}
	})
}

func TestSilenceEndsTheConnection(t *testing.T) {
	b := rabbittest.Newest(t)
	rabbittest.NoLeaks(t)
	proxy := b.Proxy(t)
	c := open(t, proxy.URL, func(cfg *Config) { cfg.Heartbeat = time.Second })
	ch, err := c.Channel(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	proxy.Add(`{"name":"mute","type":"timeout","stream":"downstream","attributes":{"timeout":0}}`)
	rabbittest.Receive(t, closed)
}

func TestConnectionHasItsName(t *testing.T) {
	b := rabbittest.Newest(t)
	c := open(t, b.URL, func(cfg *Config) { cfg.Name = "a name" })
	conn, _, err := c.await(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	if name := conn.Config.Properties["connection_name"]; name != "a name" {
		t.Errorf("got %v", name)
	}
}

// unwritable is a stream whose writes fail once broken is set.
type unwritable struct {
	net.Conn
	broken atomic.Bool
}

func (c *unwritable) Write(p []byte) (int, error) {
	if c.broken.Load() {
		return 0, errors.New("connection reset by peer")
	}
	return c.Conn.Write(p)
}

// openUnwritable returns a connection, and its newest stream.
func openUnwritable(t *testing.T) (*Connection, *atomic.Pointer[unwritable]) {
	t.Helper()
	stream := new(atomic.Pointer[unwritable])
	b := rabbittest.Newest(t)
	c, err := Open(Config{URL: b.URL, Backoff: backoff.Backoff{Min: time.Millisecond, Max: time.Millisecond}, Dial: func(network, addr string) (net.Conn, error) {
		raw, err := net.Dial(network, addr)
		if err != nil {
			return nil, err
		}
		stream.Store(&unwritable{Conn: raw})
		return stream.Load(), nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return c, stream
}

// TestDoGoesOnWhereAWriteFails checks that Do retries after a failed write. The
// client library returns the error before it marks the connection as closed.
func TestDoGoesOnWhereAWriteFails(t *testing.T) {
	rabbittest.NoLeaks(t)
	c, stream := openUnwritable(t)
	defer c.Close()
	for n := range 20 {
		if err := c.Do(t.Context(), func(ch *amqp.Channel) error { return ch.Qos(1, 0, false) }); err != nil {
			t.Fatalf("time %d: %v", n, err)
		}
		stream.Load().broken.Store(true)
	}
}

// An error of the function itself is returned, also if a write has failed meanwhile, as
// happens when the client closes a connection for a value that it cannot encode.
func TestDoReturnsErrorsOfTheFunction(t *testing.T) {
	rabbittest.NoLeaks(t)
	c, stream := openUnwritable(t)
	defer c.Close()
	own, times := errors.New("cannot be encoded"), 0
	err := c.Do(t.Context(), func(ch *amqp.Channel) error {
		times++
		stream.Load().broken.Store(true)
		if err := ch.Qos(1, 0, false); err == nil {
			t.Error("a write to a broken stream succeeded")
		}
		return own
	})
	if !errors.Is(err, own) || times != 1 {
		t.Errorf("%d times, %v", times, err)
	}
}

// TestDoDoesNotRepeatWhatEndsTheConnection checks that Do stops repeating a
// function that ends the connection, which has other users too.
func TestDoDoesNotRepeatWhatEndsTheConnection(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		rabbittest.NoLeaks(t)
		c := open(t, b.URL, nil)
		for what, test := range map[string]struct {
			f     func(ch *amqp.Channel) error
			times int
		}{
			"not to be written": {func(ch *amqp.Channel) error {
				return ch.QueueBind(strings.Repeat("q", 256), "", "amq.direct", false, nil)
			}, 1},
			"not to be read": {func(ch *amqp.Channel) error {
				err := ch.Publish("", "x", false, false, amqp.Publishing{Headers: amqp.Table{"n": math.NaN()}})
				return errors.Join(err, ch.Qos(1, 0, false))
			}, maxClosures},
		} {
			times := 0
			err := c.Do(testContext(t), func(ch *amqp.Channel) error {
				times++
				return test.f(ch)
			})
			// A reset that overtakes the reason of the broker makes a closure look like an outage.
			if most := 2*test.times - 1; err == nil || times < test.times || times > most {
				t.Errorf("%s: %d times, %v", what, times, err)
			}
			if err := c.Do(testContext(t), func(ch *amqp.Channel) error { return ch.Qos(1, 0, false) }); err != nil {
				t.Errorf("after %s: %v", what, err)
			}
		}
	})
}

// A caller that has waited for a connection learns that there was none, and why.
func TestNoConnectionInTime(t *testing.T) {
	c := open(t, "amqp://127.0.0.1:1/", nil)
	rabbittest.Eventually(t, "an attempt", func() bool { return strings.Contains(c.Err().Error(), "refused") })
	ctx, cancel := context.WithTimeoutCause(t.Context(), 0, errors.New("no answer within 20s"))
	defer cancel()
	_, err := c.AwaitConnection(ctx, 0)
	if !errors.Is(err, ErrNoConnection) || !strings.Contains(err.Error(), "no connection to the broker: no answer within 20s (") || !strings.Contains(err.Error(), "refused") {
		t.Errorf("%v", err)
	}
}
