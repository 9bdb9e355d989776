package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// How long another publisher sends harmless messages, then hostile ones, beside the
// honest one, and how often each of the two sends.
const (
	harmlessFor = 2 * time.Minute
	hostileFor  = 10 * time.Minute
	sendEvery   = 50 * time.Millisecond
)

// TestSoakHostilePublisher has one publisher use every right of its login against
// Watership, and a service every right that it has as the user of Watership's
// dead-letter exchange, beside an honest publisher. The harmless messages before, as
// many and as large, say how much of the latency is load.
func TestSoakHostilePublisher(t *testing.T) {
	if os.Getenv("WATERSHIP_TEST_SOAK") == "" {
		t.Skip("WATERSHIP_TEST_SOAK is not set")
	}
	rabbittest.EachServer(t, func(t *testing.T, broker rabbittest.Broker) {
		s := newSiege(t, broker)
		harmless := s.during(t, harmlessFor, s.harmless)
		hostile := s.during(t, hostileFor, s.hostile)
		t.Logf("harmless: %v\nhostile: %v", harmless, hostile)
		if hostile.median > 2*harmless.median || hostile.p95 > 2*harmless.p95 {
			t.Error("the latency of honest messages has more than doubled")
		}
		if first, last := hostile.memory[1], hostile.memory[len(hostile.memory)-1]; last > first*5/4 {
			t.Errorf("the memory of serve grew from %d to %d MiB", first, last)
		}
		if hostile.most > 512 {
			t.Errorf("serve took %d MiB", hostile.most)
		}
		s.wantHonestTraffic(t)
		s.wantNothingElse(t)
		s.wantReplayable(t)
	})
}

// siege is an installation with a publisher that is honest and two logins that are not.
type siege struct {
	*servertest.Installation
	process   *servertest.Process
	admin     rabbittest.Broker
	publisher *amqp.Channel // may write to the tapped exchange alone
	service   *amqp.Channel // has a queue, and may name Watership's dead-letter exchange
	honest    *amqp.Channel
	other     string // the queue and exchange of the service
	victim    string // a queue that neither may write to, nor Watership
	topology  schemas.Topology

	sent atomic.Int64 // honest messages

	mu      sync.Mutex // guards what follows
	latency []time.Duration
	calls   map[string]int // of honest messages
	mended  bool
}

func newSiege(t *testing.T, broker rabbittest.Broker) *siege {
	t.Helper()
	s := &siege{admin: broker.VHost(t), calls: map[string]int{}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })

	p := servertest.Around(t, s.admin)
	s.Installation = servertest.NewInstallation(t, s.admin)
	s.topology = schemas.Topology{Prefix: s.Prefix}
	admin := s.admin.Channel(t)
	s.victim = s.Prefix + "-victim"
	if err := admin.ExchangeDeclare(s.Exchange, "topic", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	for _, queue := range []string{s.Queue, s.victim} {
		if _, err := admin.QueueDeclare(queue, true, false, false, false, amqp.Table{
			"x-queue-type": "quorum", "x-dead-letter-exchange": s.topology.Retry(),
		}); err != nil {
			t.Fatal(err)
		}
	}
	s.other = "other-" + s.Prefix
	rights := rabbittest.DocumentedRightsOf(t, "watership", map[string]string{
		"watership": s.Prefix, "shop": s.Exchange, "orders": s.Queue, "invoices": s.other,
	})
	s.Broker = s.admin.Login(t, rights, "monitoring")
	s.OnServers(t, "http://"+listener.Addr().String()+"/", p.StoreURL)
	s.Must(t, "setup")
	s.process = s.Serve(t)
	s.publisher = s.admin.Login(t, rabbittest.Rights{Write: "^" + s.Exchange + "$"}).Channel(t)
	s.service = s.admin.Login(t, rabbittest.Rights{
		Configure: "^" + s.other + "$", Write: "^(" + s.other + "|" + s.topology.Retry() + ")$", Read: "^" + s.other + "$",
	}).Channel(t)
	s.declareOther(t)
	s.honest = s.admin.Login(t, rabbittest.Rights{Write: "^" + s.Exchange + "$"}).Channel(t)
	return s
}

// declareOther makes the other service's exchange and queue, whose messages become dead
// letters at once.
func (s *siege) declareOther(t *testing.T) {
	t.Helper()
	_, err := s.service.QueueDeclare(s.other, true, false, false, false, amqp.Table{
		"x-dead-letter-exchange": s.topology.Retry(), "x-message-ttl": int32(0),
	})
	if err == nil {
		err = s.service.ExchangeDeclare(s.other, "fanout", true, false, false, false, nil)
	}
	if err == nil {
		err = s.service.QueueBind(s.other, "", s.other, false, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// ServeHTTP is the service behind the route. A hostile message is answered as its id
// says. Every tenth honest one fails once, and every fiftieth until the service is
// mended.
func (s *siege) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get("Watership-Message-Id")
	kind, rest, _ := strings.Cut(id, "-")
	if kind != "honest" {
		if status, err := strconv.Atoi(kind); err == nil {
			w.WriteHeader(status)
		}
		return
	}
	var body struct{ Sent int64 }
	_ = json.NewDecoder(r.Body).Decode(&body)
	n, _ := strconv.Atoi(rest)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[id]++
	switch {
	case s.mended:
	case n%50 == 1:
		w.WriteHeader(http.StatusBadRequest)
	case s.calls[id] > 1:
	default:
		s.latency = append(s.latency, time.Since(time.Unix(0, body.Sent)))
		if n%10 == 2 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}
}

// phase has the figures of the honest messages of one phase.
type phase struct {
	messages    int
	median, p95 time.Duration
	memory      []int // MiB of serve, each the median of a tenth of the phase
	most        int   // MiB of serve
}

func (p phase) String() string {
	return fmt.Sprintf("%d honest messages, median %v, p95 %v, memory of serve %v MiB, at most %d MiB",
		p.messages, p.median, p.p95, p.memory, p.most)
}

// during sends honest messages, and other ones beside them, for some time.
func (s *siege) during(t *testing.T, d time.Duration, other func(n int) error) phase {
	t.Helper()
	s.mu.Lock()
	s.latency = nil
	s.mu.Unlock()
	first := s.sent.Load()
	var tenths [10][]int
	start, ticks := time.Now(), time.NewTicker(sendEvery)
	defer ticks.Stop()
	for n := 0; time.Since(start) < d; n++ {
		<-ticks.C
		s.sendHonest(t)
		if err := other(n); err != nil {
			t.Fatal(err)
		}
		if n%20 == 0 {
			tenth := &tenths[min(int(10*time.Since(start)/d), 9)]
			*tenth = append(*tenth, residentMiB(t, s.process.Cmd.Process.Pid))
		}
	}
	want := int(s.sent.Load() - first)
	servertest.Until(t, "the honest messages to be handled", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.latency) >= want-want/50-1
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.latency)
	p := phase{messages: len(s.latency), median: s.latency[len(s.latency)/2], p95: s.latency[len(s.latency)*95/100]}
	for _, samples := range tenths {
		slices.Sort(samples)
		p.memory = append(p.memory, samples[len(samples)/2])
		p.most = max(p.most, samples[len(samples)-1])
	}
	return p
}

func (s *siege) sendHonest(t *testing.T) {
	t.Helper()
	n := s.sent.Add(1)
	err := s.honest.PublishWithContext(t.Context(), s.Exchange, "order.created", false, false, amqp.Publishing{
		MessageId: fmt.Sprint("honest-", n), DeliveryMode: amqp.Persistent, ContentType: "application/json",
		Headers: amqp.Table{"tenant": "acme"}, Body: fmt.Appendf(nil, `{"sent": %d}`, time.Now().UnixNano()),
	})
	if err != nil {
		t.Fatal(err)
	}
}

// harmless sends a message as large as the hostile one of the same number, with as many
// bytes of headers.
func (s *siege) harmless(n int) error {
	twin := s.attack(n)
	p := amqp.Publishing{
		MessageId: fmt.Sprint("200-harmless-", n), DeliveryMode: amqp.Persistent,
		Headers: amqp.Table{"pad": strings.Repeat("x", wire.HeaderFrameSize(twin.message))},
		Body:    bytes.Repeat([]byte("a "), len(twin.message.Body)/2),
	}
	return s.publisher.PublishWithContext(context.Background(), s.Exchange, "order.created", false, false, p)
}

func (s *siege) hostile(n int) error {
	a := s.attack(n)
	if err := a.by.PublishWithContext(context.Background(), a.exchange, a.key, false, false, a.message); err != nil {
		return fmt.Errorf("attack %d: %w", n%17, err)
	}
	return nil
}

// attack is one hostile message.
type attack struct {
	by            *amqp.Channel
	exchange, key string
	message       amqp.Publishing
}

// attack makes the hostile message of a number. Its id begins with the status that the
// service answers.
func (s *siege) attack(n int) attack {
	a := attack{by: s.publisher, exchange: s.Exchange, key: "order.created"}
	message := func(status int, headers amqp.Table, body []byte) attack {
		a.message = amqp.Publishing{
			MessageId: fmt.Sprintf("%d-%d", status, n), DeliveryMode: amqp.Persistent, Headers: headers, Body: body,
		}
		return a
	}
	small := fmt.Appendf(nil, "hostile %d", n)
	targets := []string{s.victim, s.Queue, s.topology.Log(), s.topology.Due(), s.topology.Poison(), s.topology.Index()}
	target := targets[n/17%len(targets)]
	switch n % 17 {
	case 0: // a CC that the client cannot read, which the broker obeys
		return message(500, amqp.Table{"CC": []any{target, deep(40)}}, small)
	case 1: // a state with another's origin
		return message(400, s.forged(s.Queue, target, small), small)
	case 2: // attempts without end
		headers := s.forged(s.Queue, s.Queue, small)
		headers["watership-attempt"] = int64(-1_000_000)
		return message(500, headers, small)
	case 3, 4: // statuses of a service that is away
		return message([]int{403, 404, 401, 405, 301}[n/17%5], amqp.Table{"Origin": "https://elsewhere.example"}, small)
	case 5: // headers that change what a request means
		return message(200, amqp.Table{
			"X-Original-URL": "/admin", "X-HTTP-Method-Override": "DELETE", "idempotency_key": "v1:victim",
			"X-Forwarded-For": "127.0.0.1", "Content-Length": "0",
		}, small)
	case 6: // the mark of a replay, of a message that is another's failure
		failed := s.sent.Load() / 50 * 50
		other := schemas.Envelope{Exchange: s.Exchange, RoutingKey: "order.created", Properties: schemas.Properties{MessageID: fmt.Sprint("honest-", failed+1)}}
		return message(200, amqp.Table{
			"watership-v": int32(1), "watership-replay": "job", "watership-replay-of": "test:" + other.Fingerprint(),
			"watership-user-id": "admin", "watership-fingerprint": s.fingerprint(small, "200-"+strconv.Itoa(n)),
		}, small)
	case 7: // a mark that steers a terminal
		return message(400, amqp.Table{"watership-v": int32(1), "watership-replay": "\x1b[2J\a\u009b2J", "watership-fingerprint": s.fingerprint(small, "400-"+strconv.Itoa(n))}, small)
	case 8: // an id for a shell
		a = message(400, nil, small)
		a.message.MessageId = fmt.Sprintf("400-$(id>PWNED)-%d", n)
		return a
	case 9: // a time of publish in the past
		return message(200, amqp.Table{"timestamp_in_ms": int64(978307200000)}, small)
	case 10: // a body that is large once it is indented
		return message(200, nil, slices.Concat(bytes.Repeat([]byte("["), 9_990), bytes.Repeat([]byte("1,"), 100_000), []byte("1"), bytes.Repeat([]byte("]"), 9_990)))
	case 11: // a body of many values
		values := []byte("{")
		for i := range 20_000 {
			values = fmt.Appendf(values, `"k%d_%d":%d,`, n, i, i)
		}
		return message(200, nil, append(values, `"end":0}`...))
	case 12: // headers that leave no room for Watership's
		return message(500, amqp.Table{"large": strings.Repeat("h", 120_000)}, small)
	case 13: // formulas of a table
		return message(400, amqp.Table{"tenant": "=cmd|calc!A1"}, []byte("=1+1\u202e\x1b]0;title\a"))
	}
	// A dead letter of another's queue, of Watership's own, and of a name that is none.
	a.by, a.exchange = s.service, s.other
	queue := target
	switch n % 17 {
	case 15:
		queue = fmt.Sprintf("\xff\xfe-%d", n)
	case 16:
		queue = strings.Repeat("q", 255)
	}
	return message(500, amqp.Table{"x-death": []any{amqp.Table{
		"queue": queue, "reason": "rejected", "exchange": "", "routing-keys": []any{s.victim}, "count": int64(1),
	}}}, small)
}

// forged are the headers of a state that Watership itself might have sent.
func (s *siege) forged(queue, key string, body []byte) amqp.Table {
	e := schemas.Envelope{RoutingKey: key, Body: body}
	return amqp.Table{
		"watership-v": int32(1), "watership-queue": queue, "watership-attempt": int32(1),
		"watership-origin-exchange": "", "watership-origin-routing-key": key,
		"watership-fingerprint": e.Fingerprint(), "watership-user-id": "guest",
	}
}

func (s *siege) fingerprint(body []byte, id string) string {
	return schemas.Envelope{
		Exchange: s.Exchange, RoutingKey: "order.created", Body: body,
		Properties: schemas.Properties{MessageID: id},
	}.Fingerprint()
}

// deep nests arrays deeper than the client reads.
func deep(levels int) []any {
	array := []any{}
	for range levels {
		array = []any{array}
	}
	return array
}

// wantHonestTraffic: each honest message is recorded once, and handled or known to have
// failed.
func (s *siege) wantHonestTraffic(t *testing.T) {
	t.Helper()
	all := int(s.sent.Load())
	bad := (all + 49) / 50
	s.Eventually(t, "messaging.message.id: honest-* and event.action: published", all)
	handled := s.Eventually(t, "messaging.message.id: honest-* and event.action: handled", all-bad)
	ids := map[string]bool{}
	for _, event := range handled {
		ids[event.Envelope.Properties.MessageID] = true
	}
	if len(ids) != all-bad {
		t.Errorf("%d honest messages were handled, want %d", len(ids), all-bad)
	}
	s.Eventually(t, "messaging.message.id: honest-* and event.action: poisoned", bad)
	known := 0
	for line := range strings.Lines(s.Must(t, "failed", "messaging.message.id: honest-*", "-o", "ndjson")) {
		var group struct{ Count int }
		if err := json.Unmarshal([]byte(line), &group); err != nil {
			t.Fatal(err)
		}
		known += group.Count
	}
	if known != bad {
		t.Errorf("%d honest messages are known to have failed, want %d", known, bad)
	}
}

// wantNothingElse: no message came to the victim, or carries another's words.
func (s *siege) wantNothingElse(t *testing.T) {
	t.Helper()
	if n := s.admin.Len(t, s.victim); n != 0 {
		t.Errorf("%d messages are in the queue of the victim", n)
	}
	for _, query := range []string{
		"event.action: discarded", "event.action: replayed", "watership.replay.job: *",
		`messaging.destination.name: "" and event.action: published`, "messaging.rabbitmq.user_id: *",
	} {
		if found := s.Run(t, "search", query, "--limit", "5", "-o", "ndjson"); found.Code == 0 && strings.TrimSpace(found.Out) != "" {
			t.Errorf("%s: %s", query, found.Out)
		}
	}
	_, metrics := s.Ask(t, "/metrics")
	if lines := strings.Count(metrics, "\n"); lines > 1000 {
		t.Errorf("/metrics has %d lines", lines)
	}
	t.Logf("the log of serve has %d bytes", len(s.process.Logs.String()))
}

// wantReplayable: each honest message is handled again when it is replayed.
func (s *siege) wantReplayable(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	s.calls, s.mended = map[string]int{}, true
	s.mu.Unlock()
	all := int(s.sent.Load())
	out := s.Must(t, "replay", "messaging.message.id: honest-* and event.action: published", "--yes", "--reason", "the test", "--expect", strconv.Itoa(all))
	servertest.Until(t, "the replayed messages to be handled", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.calls) == all
	})
	t.Log(servertest.Tail(out, 300))
	s.process.Stop(t)
}

// residentMiB is the memory of a process.
func residentMiB(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kilobytes, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes >> 10
}
