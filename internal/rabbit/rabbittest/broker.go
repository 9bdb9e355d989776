// Package rabbittest provides tests with brokers, network faults, and checks for
// leaked goroutines.
package rabbittest

import (
	"context"
	"crypto/rand"
	"hash/crc32"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Broker is a broker for tests. Tests must not fill its disk or memory, or change
// its configuration.
type Broker struct {
	Address
	Version       string // such as 3.10.8
	ManagementURL string // "" without management API
	Own           bool   // not shared with other tests
	Policies      bool   // in a virtual host with policies that is not shared, as WithPolicies has it

	observers *observers // nil: each look at a queue has a connection
}

// Address is where a broker is, or another server that tests reach through a Proxy.
type Address struct{ URL string }

// Each runs a test on the embedded broker and on one RabbitMQ, or on every one if
// WATERSHIP_TEST_SOAK is set. The RabbitMQ is the oldest or the newest of
// WATERSHIP_TEST_AMQP_URLS: the name of the test chooses, so that each version has half of the
// tests, and a test always has the same one. What depends on the version of RabbitMQ has
// EachVersion.
func Each(t *testing.T, test func(t *testing.T, b Broker)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) { test(t, Embedded(t)) })
	if noServers() {
		t.Run("servers", func(t *testing.T) { needServers(t) })
		return
	}
	oldestOrNewest(t, test)
}

// oldestOrNewest runs a test on the RabbitMQ that its name chooses, or on every one if WATERSHIP_TEST_SOAK is set.
func oldestOrNewest(t *testing.T, test func(t *testing.T, b Broker)) {
	t.Helper()
	if soak() {
		EachServer(t, test)
		return
	}
	all := servers(t)
	b := all[oneOfTwo(t)*(len(all)-1)]
	b.Version = version(t, b.URL)
	t.Run(b.Version, func(t *testing.T) { test(t, b) })
}

// EachVersion runs a test on the embedded broker and on the same RabbitMQs as EachServer.
func EachVersion(t *testing.T, test func(t *testing.T, b Broker)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) { test(t, Embedded(t)) })
	if noServers() {
		t.Run("servers", func(t *testing.T) { needServers(t) })
		return
	}
	EachServer(t, test)
}

// EachServer runs a test on the first and the last RabbitMQ of WATERSHIP_TEST_AMQP_URLS, which are
// the oldest and the newest of scripts/services, or on every one if WATERSHIP_TEST_SOAK is
// set. If none exists it skips the test, or fails it if WATERSHIP_TEST_REQUIRED is set.
func EachServer(t *testing.T, test func(t *testing.T, b Broker)) {
	t.Helper()
	all := servers(t)
	for i, b := range all {
		if i == 0 || i == len(all)-1 || soak() {
			b.Version = version(t, b.URL)
			t.Run(b.Version, func(t *testing.T) { test(t, b) })
		}
	}
}

// EachKind runs a test on the embedded broker and on the newest RabbitMQ, or on every one if
// WATERSHIP_TEST_SOAK is set: for whole installations, whose parts have tests on every RabbitMQ.
func EachKind(t *testing.T, test func(t *testing.T, b Broker)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) { test(t, Embedded(t)) })
	t.Run("servers", func(t *testing.T) { NewestOrEachServer(t, test) })
}

// NewestOrEachServer is EachKind without the embedded broker.
func NewestOrEachServer(t *testing.T, test func(t *testing.T, b Broker)) {
	t.Helper()
	if soak() {
		EachServer(t, test)
		return
	}
	test(t, NewestServer(t))
}

// Newest returns the newest RabbitMQ, for tests that do not depend on its version,
// or the embedded broker if there is no RabbitMQ and none is required.
func Newest(t testing.TB) Broker {
	t.Helper()
	if noServers() && os.Getenv("WATERSHIP_TEST_REQUIRED") == "" {
		return Embedded(t)
	}
	return NewestServer(t)
}

// NewestServer returns the newest RabbitMQ. If none exists it skips the test, or
// fails it if WATERSHIP_TEST_REQUIRED is set.
func NewestServer(t testing.TB) Broker {
	t.Helper()
	all := servers(t)
	newest := all[len(all)-1]
	newest.Version = version(t, newest.URL)
	return newest
}

// soak reports whether tests run in their long forms.
func soak() bool { return os.Getenv("WATERSHIP_TEST_SOAK") != "" }

// Either returns the embedded broker or the newest RabbitMQ, as the name of the test chooses, and
// always the newest RabbitMQ if WATERSHIP_TEST_SOAK is set: for many tests of behaviour that no
// broker and no store shapes, since one without servers costs a fraction.
func Either(t testing.TB) Broker {
	t.Helper()
	if _, onServers := Forms(t); onServers {
		return NewestServer(t)
	}
	return Embedded(t)
}

// Forms reports in which of its two forms a test of a whole installation runs: without servers, or on them. It is one
// of the two, as the name of the test chooses, since an installation on servers costs ten times as much, and both if
// WATERSHIP_TEST_SOAK is set.
func Forms(t testing.TB) (embedded, onServers bool) {
	if soak() {
		return true, true
	}
	onServers = !noServers() && oneOfTwo(t) == 1
	return !onServers, onServers
}

// oneOfTwo returns 0 or 1, always the same for a test.
func oneOfTwo(t testing.TB) int { return int(crc32.ChecksumIEEE([]byte(t.Name())) % 2) }

func noServers() bool { return os.Getenv("WATERSHIP_TEST_AMQP_URLS") == "" }

func needServers(t testing.TB) {
	t.Helper()
	const reason = `no RabbitMQ: WATERSHIP_TEST_AMQP_URLS is not set (scripts/services up; eval "$(scripts/services env)")`
	if os.Getenv("WATERSHIP_TEST_REQUIRED") != "" {
		t.Fatal(reason)
	}
	t.Skip(reason)
}

// servers returns the brokers without their versions.
func servers(t testing.TB) []Broker {
	t.Helper()
	if noServers() {
		needServers(t)
	}
	urls := strings.Fields(os.Getenv("WATERSHIP_TEST_AMQP_URLS"))
	management := strings.Fields(os.Getenv("WATERSHIP_TEST_MANAGEMENT_URLS"))
	all := make([]Broker, len(urls))
	for i, url := range urls {
		all[i] = Broker{Address: Address{url}, observers: &observers{all: map[observer]*amqp.Channel{}}}
		if i < len(management) {
			all[i].ManagementURL = management[i]
		}
	}
	return all
}

func version(t testing.TB, url string) string {
	t.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatalf("broker does not answer: %v", err)
	}
	defer conn.Close()
	text, _ := conn.Properties["version"].(string)
	return text
}

// Name returns a unique name for a queue or exchange.
func Name(t testing.TB) string {
	name, _, _ := strings.Cut(t.Name(), "/")
	return "test." + name + "." + rand.Text()[:10]
}

// Admin opens a plain connection, independent of the code under test, and closes it
// when the test ends.
func (a Address) Admin(t testing.TB) *amqp.Connection {
	t.Helper()
	conn, err := amqp.Dial(a.URL)
	if err != nil {
		t.Fatalf("connect to the broker: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// Channel opens a channel on a new Admin connection.
func (a Address) Channel(t testing.TB) *amqp.Channel {
	t.Helper()
	ch, err := a.Admin(t).Channel()
	if err != nil {
		t.Fatalf("open channel: %v", err)
	}
	return ch
}

// Queue declares a durable queue with a unique name, and deletes it when the test
// ends.
func (a Address) Queue(t testing.TB, args amqp.Table) string {
	t.Helper()
	name := Name(t)
	if _, err := a.Channel(t).QueueDeclare(name, true, false, false, false, args); err != nil {
		t.Fatalf("declare queue: %v", err)
	}
	a.DeleteQueue(t, name)
	return name
}

// DeleteQueue deletes a queue when the test ends.
func (a Address) DeleteQueue(t testing.TB, name string) {
	t.Cleanup(func() {
		a.cleanup(func(ch *amqp.Channel) { _, _ = ch.QueueDelete(name, false, false, false) })
	})
}

// DeleteExchange deletes an exchange when the test ends.
func (a Address) DeleteExchange(t testing.TB, name string) {
	t.Cleanup(func() {
		a.cleanup(func(ch *amqp.Channel) { _ = ch.ExchangeDelete(name, false, false) })
	})
}

func (a Address) cleanup(f func(*amqp.Channel)) {
	conn, err := amqp.Dial(a.URL)
	if err != nil {
		return
	}
	defer conn.Close()
	if ch, err := conn.Channel(); err == nil {
		f(ch)
	}
}

// Take consumes n messages from a queue, in order, and acknowledges them. It does so at once, since
// RabbitMQ sends on only some of many acknowledgements for a quorum queue before the channel is closed.
func (a Address) Take(t testing.TB, queue string, n int) []amqp.Delivery {
	t.Helper()
	ch := a.Channel(t)
	deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		t.Fatalf("consume %s: %v", queue, err)
	}
	taken := make([]amqp.Delivery, 0, n)
	for len(taken) < n {
		taken = append(taken, Receive(t, deliveries))
	}
	if n > 0 {
		if err := taken[n-1].Ack(true); err != nil {
			t.Fatalf("ack: %v", err)
		}
	}
	_ = ch.Close()
	return taken
}

// NeedServices skips a test that stops or restarts brokers if scripts/services is
// not available, or fails it if WATERSHIP_TEST_REQUIRED is set.
func NeedServices(t testing.TB) {
	t.Helper()
	if os.Getenv("WATERSHIP_TEST_SERVICES") != "" {
		return
	}
	const reason = "brokers cannot be restarted: WATERSHIP_TEST_SERVICES is not set"
	if os.Getenv("WATERSHIP_TEST_REQUIRED") != "" {
		t.Fatal(reason)
	}
	t.Skip(reason)
}

// NeedFaults skips a test that blocks all publishers of a broker, unless
// WATERSHIP_TEST_FAULTS is set.
func NeedFaults(t testing.TB) {
	t.Helper()
	if os.Getenv("WATERSHIP_TEST_FAULTS") == "" {
		t.Skip("stops every publisher of the broker: set WATERSHIP_TEST_FAULTS=1")
	}
	NeedServices(t)
}

// Alarm raises a broker's memory alarm until lift is called or the test ends.
func (b Broker) Alarm(t testing.TB) (lift func()) {
	t.Helper()
	lift = func() { b.Service(t, "ctl", "set_vm_memory_high_watermark", "0.7") } // as in scripts/services.d
	t.Cleanup(lift)
	b.Service(t, "ctl", "set_vm_memory_high_watermark", "0.000001")
	b.Service(t, "ctl", "eval", awaitAlarm) // it measures its memory once a second
	return lift
}

// awaitAlarm is Erlang that returns once the node has an alarm.
const awaitAlarm = `Await = fun Await() -> case rabbit_alarm:get_local_alarms() of [] -> timer:sleep(10), Await(); _ -> ok end end, Await().`

// ServiceName returns the name that scripts/services has for this broker.
func (b Broker) ServiceName() string {
	for started := range strings.FieldsSeq(os.Getenv("WATERSHIP_TEST_SERVICES_STARTED")) {
		if name, address, _ := strings.Cut(started, "="); strings.HasPrefix(b.URL, address) {
			return name
		}
	}
	return "rabbitmq4"
}

// Service runs scripts/services for this broker, such as Service(t, "restart") or
// Service(t, "ctl", "status"). It is safe for concurrent use.
func (b Broker) Service(t testing.TB, verb string, args ...string) {
	t.Helper()
	script, name := os.Getenv("WATERSHIP_TEST_SERVICES"), b.ServiceName()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, script, append([]string{verb, name}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", cmd, err, out)
	}
}
