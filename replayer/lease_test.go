package replayer

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/topology"
	"github.com/watershipmq/watership/schemas"
)

// secondReplayer returns the replayer of another process.
func (f *fixture) secondReplayer(url string) *Replayer {
	cfg := f.config(f.cfg.Topology, url)
	cfg.NewID = func() string { return "the second" }
	return New(cfg)
}

// TestSecondRunner: a second runner is refused while the first one runs.
func TestSecondRunner(t *testing.T) {
	t.Parallel() // most of it is waiting
	f := newFixture(t)
	f.storePublished(100)
	order := f.job("")
	order.Rate = 25
	created := f.create(order)
	var refused error
	job, err := f.Run(t.Context(), created.ID, RunOptions{Progress: func(j Job) {
		if j.Sent == 1 {
			_, refused = f.secondReplayer(f.broker.URL).Run(t.Context(), created.ID, RunOptions{})
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	wantAs[*BusyError](t, refused)
	if !strings.Contains(refused.Error(), created.ID) || strings.Contains(refused.Error(), "\n") {
		t.Errorf("the second is refused with %q", refused)
	}
	wantJob(t, job, Done, 100, 0)
	if got := strings.Fields(f.receivedIDs(f.queue)); len(got) != 100 {
		t.Errorf("%d messages arrived", len(got))
	}
}

// TestConnectionLost: the run continues by itself, and sends at most one window twice.
func TestConnectionLost(t *testing.T) {
	f := newFixtureOn(t, rabbittest.Newest(t)) // many messages: the race detector makes broker and store slow in this process
	const messages = 6000
	f.storePublished(messages)
	proxy := f.broker.Proxy(t)
	runner := f.secondReplayer(proxy.URL)
	created := f.create(f.job(""))
	const cuts = 3
	cut, mended := 0, make(chan struct{}, 1)
	mended <- struct{}{}
	job, err := runner.Run(t.Context(), created.ID, RunOptions{Progress: func(j Job) {
		if cut == cuts || j.Sent < messages*(cut+1)/(cuts+1) {
			return
		}
		select {
		case <-mended:
			cut++
			go func() {
				proxy.Cut()
				time.Sleep(50 * time.Millisecond)
				proxy.Mend()
				mended <- struct{}{}
			}()
		default: // confirmed messages are still being counted
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	wantJob(t, job, Done, messages, 0)
	wantEach(t, f.drain(f.queue), messages, cuts*Window)
	if cut != cuts {
		t.Errorf("the connection was cut %d times", cut)
	}
}

// wantEach checks that every message arrived, and at most some of them twice.
func wantEach(t testing.TB, deliveries []amqp.Delivery, messages, repeated int) {
	t.Helper()
	seen := map[string]int{}
	for _, d := range deliveries {
		seen[d.MessageId]++
	}
	if len(seen) != messages {
		t.Errorf("%d different messages arrived, want %d", len(seen), messages)
	}
	if twice := len(deliveries) - len(seen); twice > repeated {
		t.Errorf("%d messages arrived twice, want at most %d", twice, repeated)
	}
}

// TestRevivedRunner: a runner loses its network, another process resumes the job, and
// the network returns: the first runner must not send again.
func TestRevivedRunner(t *testing.T) {
	f := newFixture(t)
	f.storePublished(2000)
	proxy := f.broker.Proxy(t)
	order := f.job("")
	order.Rate = 200
	created := f.create(order)
	first := make(chan error, 1)
	started := make(chan struct{})
	go func() {
		_, err := f.secondReplayer(proxy.URL).Run(t.Context(), created.ID, RunOptions{Progress: func(j Job) {
			if j.Sent == 50 {
				close(started)
			}
		}})
		first <- err
	}()
	rabbittest.Ends(t, started)
	proxy.Cut()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	arrived := 0
	_, err := f.Run(ctx, created.ID, RunOptions{Progress: func(j Job) {
		if arrived++; arrived == 50 {
			proxy.Mend()
		}
		if arrived == 400 {
			stop()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	wantAs[*TakenOverError](t, rabbittest.Receive(t, first))
	deliveries := f.drain(f.queue)
	seen := map[string]int{}
	for _, d := range deliveries {
		seen[d.MessageId]++
	}
	if twice := len(deliveries) - len(seen); twice > Window {
		t.Errorf("%d arrived twice", twice)
	}
}

// TestNothingWithoutTheQueue: while another connection holds the queue of the job, a
// run sends nothing and does not change the job.
func TestNothingWithoutTheQueue(t *testing.T) {
	f := newFixture(t)
	f.storePublished(3)
	created := f.create(f.job(""))
	admin := f.broker.Channel(t)
	queue := JobQueue(f.cfg.Topology, created.ID)
	if queue != f.source+".job."+created.ID || JobQueue(schemas.Topology{}, "1") != "watership.job.1" {
		t.Errorf("the name of the queue is %s", queue)
	}
	if _, err := admin.QueueDeclare(queue, false, false, true, false, nil); err != nil {
		t.Fatal(err)
	}
	_, err := f.Run(t.Context(), created.ID, RunOptions{})
	wantAs[*BusyError](t, err)
	if got := f.receivedIDs(f.queue); got != "" {
		t.Errorf("sent %s", got)
	}
	if job, err := f.Job(t.Context(), created.ID); err != nil || job.State != Planned || job.Sent != 0 {
		t.Errorf("the job is %+v (%v)", job, err)
	}
}

// TestLeaseDoesNotReconnect: nothing is sent on a second connection, not even messages
// waiting to be sent again, since it would not hold the queue.
func TestLeaseDoesNotReconnect(t *testing.T) {
	f := newFixture(t)
	proxy := f.broker.Proxy(t)
	l, err := f.secondReplayer(proxy.URL).connect(t.Context(), "a-job", rabbittest.Timeout)
	if err != nil {
		t.Fatal(err)
	}
	message := rabbit.Message{RoutingKey: f.queue, Publishing: amqp.Publishing{MessageId: "before"}}
	if err := l.Publisher.Publish(t.Context(), message); err != nil {
		t.Fatal(err)
	}
	proxy.Cut()
	message.Publishing.MessageId = "after"
	pending, err := l.Publisher.Send(t.Context(), message)
	if err != nil {
		t.Fatal(err)
	}
	proxy.Mend()
	select {
	case <-l.Lost():
	case <-time.After(rabbittest.Timeout):
		t.Error("the lost connection was not noticed")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if err := pending.Wait(ctx); err == nil {
		t.Error("a message was sent on a second connection")
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if got := f.receivedIDs(f.queue); got != "before" {
		t.Errorf("arrived: %s", got)
	}
}

// RabbitMQ closes the connection of a binding that it cannot make in time. With the connection of
// the job the right to run it would end.
func TestBindingsHaveAConnection(t *testing.T) {
	f := newFixtureOn(t, rabbittest.Newest(t).VHost(t))
	f.storePublished(2)
	conn, err := rabbit.Open(rabbit.Config{URL: f.broker.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	declarer := topology.Reconciler{Conn: conn, Config: topology.Config{Topology: f.cfg.Topology}}
	if err := declarer.BindReturn(t.Context(), f.queue); err != nil { // declares the exchange
		t.Fatal(err)
	}
	url, bindings := f.broker.CountBindings(t)
	job := f.job("")
	job.Target = Target{Kind: ToQueue, Queue: f.broker.Queue(t, nil)}
	done, err := New(f.config(f.cfg.Topology, url)).Run(t.Context(), f.create(job).ID, RunOptions{})
	if err != nil || done.Sent != 2 {
		t.Errorf("%+v (%v)", done, err)
	}
	if publishing, others := bindings(); publishing != 0 || others == 0 {
		t.Errorf("%d bindings on connections that publish, %d on others", publishing, others)
	}
}
