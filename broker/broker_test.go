package broker_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/broker"
)

func TestCloseTellsClients(t *testing.T) {
	b := start(t, broker.Config{})
	conn := connect(t, b)
	closed := conn.NotifyClose(make(chan *amqp.Error, 1))
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	reason := receive(t, closed)
	if reason.Code != 320 || reason.Reason != "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'" {
		t.Errorf("closed with %v", reason)
	}
	nothingRuns(t)
}

func TestCloseDoesNotWaitForSilentClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, broker.Config{})
		for range 3 { // connected, and saying nothing
			stream, err := b.Dial("", "")
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Close()
		}
		begin := time.Now()
		b.Close()
		if took := time.Since(begin); took > 2*time.Second { // for clients to answer connection.close
			t.Errorf("took %v", took)
		}
	})
}

func TestClosedBrokerTakesNobody(t *testing.T) {
	b := start(t, broker.Config{})
	b.Close()
	if err := b.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	if _, err := b.Dial("", ""); !errors.Is(err, broker.ErrClosed) {
		t.Errorf("Dial: %v", err)
	}
	if _, err := b.Listen("127.0.0.1:0"); !errors.Is(err, broker.ErrClosed) {
		t.Errorf("Listen: %v", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Serve(listener); !errors.Is(err, broker.ErrClosed) {
		t.Errorf("Serve: %v", err)
	}
}

func TestCloseEndsServe(t *testing.T) {
	b := start(t, broker.Config{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- b.Serve(listener) }()
	conn, err := amqp.Dial("amqp://guest:guest@" + listener.Addr().String() + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	b.Close()
	if err := receive(t, served); !errors.Is(err, broker.ErrClosed) {
		t.Errorf("Serve: %v", err)
	}
}

func TestLogins(t *testing.T) {
	b := start(t, broker.Config{Users: map[string]string{"anna": "secret"}, VHosts: []string{"shop"}})
	for login, ok := range map[string]bool{"anna:secret": true, "anna:wrong": false, "guest:guest": false, "anna:": false} {
		conn, err := amqp.DialConfig("amqp://"+login+"@embedded/shop", amqp.Config{
			Dial: b.Dial,
		})
		if (err == nil) != ok {
			t.Errorf("%s: %v", login, err)
		}
		if err == nil {
			conn.Close()
		}
	}
}

// Guest comes from this machine only, unless it is said otherwise.
func TestLoopbackUsers(t *testing.T) {
	address := outsideAddress(t)
	for name, c := range map[string]struct {
		login    string
		loopback []string
		refused  bool
	}{
		"guest":       {"guest:guest", nil, true},
		"another":     {"anna:secret", nil, false},
		"another too": {"anna:secret", []string{"anna"}, true},
		"nobody":      {"guest:guest", []string{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t, broker.Config{Users: map[string]string{"guest": "guest", "anna": "secret"}, LoopbackUsers: c.loopback})
			listening, err := b.Listen(net.JoinHostPort(address, "0"))
			if err != nil {
				t.Fatal(err)
			}
			conn, err := amqp.Dial("amqp://" + c.login + "@" + listening.String())
			if (err != nil) != c.refused {
				t.Errorf("AMQP: %v", err)
			}
			if err == nil {
				conn.Close()
			}
			request := httptest.NewRequest(http.MethodGet, "/api/whoami", nil)
			request.RemoteAddr = net.JoinHostPort(address, "1")
			user, password, _ := strings.Cut(c.login, ":")
			request.SetBasicAuth(user, password)
			answer := httptest.NewRecorder()
			b.Management().ServeHTTP(answer, request)
			if (answer.Code == http.StatusUnauthorized) != c.refused {
				t.Errorf("management: %d %s", answer.Code, answer.Body)
			}
		})
	}
}

// outsideAddress is an address of this machine by which others reach it.
func outsideAddress(t *testing.T) string {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range addresses {
		if network, ok := address.(*net.IPNet); ok && network.IP.IsGlobalUnicast() && network.IP.To4() != nil {
			return network.IP.String()
		}
	}
	t.Skip("this machine has no address but that of itself")
	return ""
}

func TestConnectionLimit(t *testing.T) {
	b := start(t, broker.Config{Limits: broker.Limits{Connections: 2}})
	connect(t, b)
	second := connect(t, b)
	_, err := dial(b, amqp.Config{})
	want(t, err, "NOT_ALLOWED - connection refused: node connection limit (2) is reached")
	second.Close()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if conn, err := dial(b, amqp.Config{}); err == nil {
			conn.Close()
			return
		} else if time.Now().After(deadline) {
			t.Fatalf("no connection after one has gone: %v", err)
		}
	}
}

// However many connections never log in, others can.
func TestConnectionsWithoutALogin(t *testing.T) {
	b := start(t, broker.Config{Limits: broker.Limits{Connections: 2}})
	for range 10 {
		stream, err := b.Dial("", "")
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		if _, err := stream.Write([]byte("AMQP")); err != nil {
			t.Fatal(err)
		}
	}
	connect(t, b)
}

func TestTopologyLimits(t *testing.T) {
	b := start(t, broker.Config{Limits: broker.Limits{Queues: 1, Exchanges: 8, Bindings: 1}})
	conn := connect(t, b)
	declare(t, channel(t, conn), "one", nil)
	_, err := channel(t, conn).QueueDeclare("two", true, false, false, false, nil)
	want(t, err, "PRECONDITION_FAILED - cannot declare queue 'two' in vhost '/': queue limit in vhost '/' (1) is reached")
	declare(t, channel(t, conn), "one", nil)
	if err := channel(t, conn).ExchangeDeclare("a", "fanout", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := channel(t, conn).QueueBind("one", "", "a", false, nil); err != nil {
		t.Fatal(err)
	}
	want(t, channel(t, conn).QueueBind("one", "2", "a", false, nil), "RESOURCE_ERROR - binding limit in vhost '/' (1) is reached")
	conn = connect(t, b)
	want(t, channel(t, conn).ExchangeDeclare("b", "fanout", true, false, false, false, nil),
		"RESOURCE_ERROR - exchange limit in vhost '/' (8) is reached")
}

// Names, keys and arguments count towards a limit, and no longer when they go.
func TestTopologySize(t *testing.T) {
	const limit = 200_000
	b := start(t, broker.Config{Limits: broker.Limits{Topology: limit}})
	large := amqp.Table{"text": strings.Repeat("x", 100_000)}
	refused := fmt.Sprintf("RESOURCE_ERROR - topology limit in vhost '/' (%d bytes) is reached", limit)
	for name, add := range map[string]func(*amqp.Channel) error{
		"queue": func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclare("large", true, false, false, false, large)
			return err
		},
		"exchange": func(ch *amqp.Channel) error {
			return ch.ExchangeDeclare("large", "fanout", true, false, false, false, large)
		},
		"binding": func(ch *amqp.Channel) error { return ch.QueueBind("q", "", "x", false, large) },
	} {
		t.Run(name, func(t *testing.T) {
			ch := channel(t, connect(t, b))
			declare(t, ch, "q", nil)
			declare(t, ch, "half", large)
			if err := ch.ExchangeDeclare("x", "fanout", true, false, false, false, nil); err != nil {
				t.Fatal(err)
			}
			want(t, add(ch), refused)
			ch = channel(t, connect(t, b))
			if _, err := ch.QueueDelete("half", false, false, false); err != nil {
				t.Fatal(err)
			}
			if name == "binding" { // which counts twice
				return
			}
			if err := add(ch); err != nil {
				t.Errorf("once there is room: %v", err)
			}
			if _, err := ch.QueueDelete("large", false, false, false); err != nil {
				t.Fatal(err)
			}
			if err := ch.ExchangeDelete("large", false, false); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	b := start(t, broker.Config{})
	conn := connect(t, b)
	_, err := channel(t, conn).QueueDeclare("s", true, false, false, false, amqp.Table{"x-queue-type": "stream"})
	want(t, err, `PRECONDITION_FAILED - invalid arg 'x-queue-type' for queue 's' in vhost '/': "unsupported queue type 'stream'"`)
}

func want(t *testing.T, err error, text string) {
	t.Helper()
	var exception *amqp.Error
	if !errors.As(err, &exception) || exception.Reason != text {
		t.Errorf("error is %v, want %s", err, text)
	}
}

// A publisher is stopped and told at the memory limit, a consumer is not, and what
// the consumer takes lets the publisher go on.
func TestMemoryLimit(t *testing.T) {
	said := make(logged, 10)
	b := start(t, broker.Config{Limits: broker.Limits{Memory: 100_000}, Logger: slog.New(slog.NewTextHandler(said, &slog.HandlerOptions{Level: slog.LevelError}))})
	publisher, consumer := connect(t, b), connect(t, b)
	blocked := publisher.NotifyBlocked(make(chan amqp.Blocking, 10))
	in, out := channel(t, publisher), channel(t, consumer)
	declare(t, in, "q", nil)
	for range 10 { // with what goes with each, just too much
		publish(t, in, "q", amqp.Publishing{Body: make([]byte, 10_000)})
	}
	if state := receive(t, blocked); !state.Active || state.Reason != "low on memory" {
		t.Fatalf("blocked: %+v", state)
	}
	if line := receive(t, said); !strings.Contains(line, "out of memory") || len(said) > 0 {
		t.Errorf("the log says %q and %d more", line, len(said))
	}
	sent := make(chan error, 1)
	go func() { sent <- in.Publish("", "q", false, false, amqp.Publishing{Body: []byte("last")}) }()
	deliveries, err := out.Consume("q", "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		receive(t, deliveries)
	}
	if state := receive(t, blocked); state.Active {
		t.Error("not unblocked")
	}
	if err := receive(t, sent); err != nil {
		t.Fatal(err)
	}
	for string(receive(t, deliveries).Body) != "last" {
	}
}

// logged are lines of a log.
type logged chan string

func (l logged) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// A message that comes in parts is counted once.
func TestMemoryOfPartsIsNotCountedTwice(t *testing.T) {
	b := start(t, broker.Config{Limits: broker.Limits{Memory: 300_000}})
	conn := connect(t, b)
	blocked := conn.NotifyBlocked(make(chan amqp.Blocking, 1))
	ch := channel(t, conn)
	declare(t, ch, "q", nil)
	publish(t, ch, "q", amqp.Publishing{Body: make([]byte, 280_000)})
	if n := length(t, ch, "q"); n != 1 || len(blocked) > 0 {
		t.Errorf("%d messages, blocked %d times", n, len(blocked))
	}
}

// Transactions count before their commit. One that is blocked can be committed all
// the same.
func TestMemoryOfTransactions(t *testing.T) {
	b := start(t, broker.Config{Limits: broker.Limits{Memory: 100_000}})
	one, two := transaction(t, b), transaction(t, b)
	declare(t, one, "q", nil)
	for _, ch := range []*amqp.Channel{one, two} { // the second is blocked
		publish(t, ch, "q", amqp.Publishing{Body: make([]byte, 60_000)})
	}
	for _, ch := range []*amqp.Channel{two, one} {
		if err := ch.TxCommit(); err != nil {
			t.Fatal(err)
		}
	}
	if n := length(t, channel(t, connect(t, b)), "q"); n != 2 {
		t.Errorf("%d messages, want 2", n)
	}
}

func TestTransactionLargerThanMemory(t *testing.T) {
	large := transaction(t, start(t, broker.Config{Limits: broker.Limits{Memory: 100_000}}))
	closed := large.NotifyClose(make(chan *amqp.Error, 1))
	for range 2 {
		publish(t, large, "q", amqp.Publishing{Body: make([]byte, 60_000)})
	}
	want(t, receive(t, closed), "PRECONDITION_FAILED - a transaction is larger than the memory limit (100000 bytes)")
}

func transaction(t *testing.T, b *broker.Broker) *amqp.Channel {
	t.Helper()
	ch := channel(t, connect(t, b))
	if err := ch.Tx(); err != nil {
		t.Fatal(err)
	}
	return ch
}

func TestBlockedBrokerCloses(t *testing.T) {
	b := start(t, broker.Config{Limits: broker.Limits{Memory: 1}})
	conn := connect(t, b)
	blocked := conn.NotifyBlocked(make(chan amqp.Blocking, 1))
	ch := channel(t, conn)
	declare(t, ch, "q", nil)
	publish(t, ch, "q", amqp.Publishing{Body: []byte("too much")})
	receive(t, blocked)
	b.Close()
}

func TestSlowReaderOfReplies(t *testing.T) {
	b := start(t, broker.Config{})
	ch := channel(t, connect(t, b))
	declare(t, ch, "q", nil)
	publish(t, ch, "q", amqp.Publishing{Body: []byte(strings.Repeat("x", 1<<20))})
	for range 30 {
		d, ok, err := ch.Get("q", false)
		if err != nil || !ok {
			t.Fatalf("get: %v %v", ok, err)
		}
		if err := d.Reject(true); err != nil {
			t.Fatal(err)
		}
	}
}
