package cli

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/broker"
	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/internal/system/runfile"
)

// small is a dev in this process whose broker holds little, with one route.
type small struct {
	address string // as others have it
	out     *servertest.Sink
	store   testStore
	file    string
	end     context.CancelFunc
	ended   chan error
}

func newSmall(t *testing.T, service http.HandlerFunc) *small {
	t.Helper()
	data := t.TempDir()
	cfg, err := config.Load(config.Sources{Environ: []string{
		"WATERSHIP_AMQP_URL=embedded://", "WATERSHIP_AMQP_LISTEN=127.0.0.1:0", "WATERSHIP_DATA=" + data, "WATERSHIP_HTTP_LISTEN=",
		"WATERSHIP_STORE_URL=sqlite:" + runfile.StoreFile(data), "WATERSHIP_LOG_LEVEL=error", "WATERSHIP_INDEX_BATCH_WAIT=50ms",
		"WATERSHIP_TAP_EXCHANGES=[{name: amq.topic, type: topic}]",
		fmt.Sprintf(`WATERSHIP_ROUTES=[{queue: orders, bind: [{exchange: amq.topic, key: "#"}], handler: {http: {url: %q}}}]`, servertest.ServeHTTP(t, service)),
	}})
	if err != nil {
		t.Fatal(err)
	}
	s := &small{out: &servertest.Sink{}, file: runfile.StoreFile(data), ended: make(chan error, 1)}
	ctx, end := context.WithCancel(t.Context())
	s.end = end
	d := &dev{Streams: terminal.Streams{In: strings.NewReader(""), Out: s.out, Err: s.out}, empty: true, limits: broker.Limits{Memory: 1 << 20}}
	go func() { s.ended <- d.serve(ctx, cfg) }()
	t.Cleanup(end)
	servertest.Until(t, "dev to run", func() bool { return strings.Contains(s.out.String(), "Try, in a second terminal") })
	s.address = regexp.MustCompile(`amqp://\S+`).FindString(s.out.String())
	s.store = openStore(t, cfg.Store.URL.Reveal(), "")
	return s
}

// fill publishes until the broker stops it, and says how many were sent for certain.
func (s *small) fill(t *testing.T) (published int) {
	t.Helper()
	conn, err := amqp.Dial(s.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.CloseDeadline(time.Now()) })
	blocked := conn.NotifyBlocked(make(chan amqp.Blocking, 100))
	channel, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if err := channel.Confirm(false); err != nil {
		t.Fatal(err)
	}
	for {
		confirm, err := channel.PublishWithDeferredConfirm("amq.topic", "order", false, false, amqp.Publishing{
			MessageId: fmt.Sprint("m-", published), Body: make([]byte, 20_000),
		})
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-confirm.Done():
			published++
		case <-blocked:
			return published
		}
	}
}

// A full broker is worked off while others wait, though each message that is
// handled makes an event that has to be published.
func TestDevelopmentWorksAFullBrokerOff(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := newSmall(t, func(http.ResponseWriter, *http.Request) { <-release })
	published := s.fill(t)
	environ := []string{"WATERSHIP_AMQP_URL=" + s.address, "WATERSHIP_STORE_URL=sqlite:" + s.file}
	if r := call(t.Context(), strings.NewReader(""), environ, "doctor"); !strings.Contains(columnsOf(r.Out), "error broker the broker is short of memory or disk") || strings.Contains(r.Out, "permissions") {
		t.Errorf("doctor does not see that the broker is full: %+v", r)
	}
	close(release)
	servertest.Until(t, "all to be handled", func() bool {
		n, err := s.store.Count(t.Context(), eventstore.Selection{Query: kql.FieldIs("event.action", "handled")})
		return err == nil && n >= int64(published)
	})
	s.end()
	if err := rabbittest.Receive(t, s.ended); err != nil {
		t.Errorf("dev ended with %v", err)
	}
}

func TestLossText(t *testing.T) {
	for _, c := range []struct {
		messages, unrecorded int
		want                 string
	}{
		{0, 0, ""},
		{343, 0, "lost with the in-memory broker: 343 messages in its queues, all recorded"},
		{2, 1, "lost with the in-memory broker: 2 messages in its queues, 1 of them not recorded yet"},
	} {
		if got := lossText(c.messages, c.unrecorded); got != c.want {
			t.Errorf("%d, %d: %q, want %q", c.messages, c.unrecorded, got, c.want)
		}
	}
}

// A dev whose broker is full ends without working off what is in it, and says how
// much that is.
func TestDevelopmentEndsWithAFullBroker(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := newSmall(t, func(http.ResponseWriter, *http.Request) { <-release })
	servertest.TakeFile(t, s.file)
	published := s.fill(t)
	s.end()
	close(release)
	if err := rabbittest.Receive(t, s.ended); err != nil {
		t.Errorf("dev ended with %v", err)
	}
	lines := strings.Split(strings.TrimSpace(s.out.String()), "\n")
	var all, unrecorded int
	if _, err := fmt.Sscanf(lines[len(lines)-1], "lost with the in-memory broker: %d messages in its queues, %d of them not recorded yet", &all, &unrecorded); err != nil {
		t.Fatalf("%v: dev printed\n%s", err, s.out.String())
	}
	if unrecorded < published || all < unrecorded {
		t.Errorf("%d of %d messages are not recorded, and the store has none of %d", unrecorded, all, published)
	}
}

// The first Ctrl-C waits for what handlers have in hand, the second for nothing.
func TestDevelopmentInterruptedTwice(t *testing.T) {
	asked, release := make(chan struct{}, 1), make(chan struct{})
	t.Cleanup(func() { close(release) })
	d := develop(t, []string{fmt.Sprintf(`WATERSHIP_ROUTES=[{queue: orders, handler: {http: {url: %q}}}]`, servertest.ServeHTTP(t, http.HandlerFunc(
		func(http.ResponseWriter, *http.Request) { asked <- struct{}{}; <-release })))}, "--empty")
	d.says(t, "Try, in a second terminal")
	d.must(t, "echo {} | "+d.binary+" publish --key orders")
	rabbittest.Receive(t, asked)
	health := regexp.MustCompile(`http://[^/\s]+`).FindString(d.out.String()) + "/healthz"
	if err := d.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	d.says(t, "Another Ctrl-C ends it at once.")
	client := http.Client{Timeout: 5 * time.Second} // a server that ends may accept a connection and not answer
	servertest.Until(t, "the end to begin", func() bool {
		answer, err := client.Get(health)
		if err == nil {
			answer.Body.Close()
		}
		return err != nil
	})
	servertest.Until(t, "it to end", func() bool { // the next one does where it was still taking notice of the first
		_ = d.cmd.Process.Signal(syscall.SIGINT)
		return len(d.ended) > 0
	})
	<-d.ended
	if ended, ok := d.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !ended.Signaled() || ended.Signal() != syscall.SIGINT {
		t.Errorf("the second Ctrl-C ended it with %v", d.cmd.ProcessState)
	}
}
