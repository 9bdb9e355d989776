package broker_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/broker"
)

// In a test, t is its *testing.T.
func ExampleStart() {
	t := newExampleT()
	defer t.end()
	b := broker.Start(t, broker.Config{})

	conn, err := amqp.Dial(b.URL())
	if err != nil {
		t.Fatalf("%v", err)
	}
	fmt.Println(conn.Properties["product"])
	// Output: Watership
}

// A broker with a login and a virtual host of its own, for small messages.
func ExampleStart_config() {
	t := newExampleT()
	defer t.end()
	b := broker.Start(t, broker.Config{
		Users:  map[string]string{"anna": "secret"},
		VHosts: []string{"shop"},
		Limits: broker.Limits{Memory: 1 << 20, MessageSize: 1000},
	})

	ch := openChannel(b.URL())
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	_ = ch.Publish("", "orders", false, false, amqp.Publishing{Body: make([]byte, 2000)})
	fmt.Println((<-closed).Reason)
	// Output: PRECONDITION_FAILED - message size 2000 is larger than configured max size 1000
}

// A broker that behaves like RabbitMQ 4.0: its quorum queues count a nack as a failed delivery.
func ExampleRelease() {
	t := newExampleT()
	defer t.end()
	b := broker.Start(t, broker.Config{Release: broker.RabbitMQ40})

	conn, err := amqp.Dial(b.URL())
	if err != nil {
		t.Fatalf("%v", err)
	}
	fmt.Println(conn.Properties["version"])
	// Output: 4.0.5
}

// Outside of tests, such as for a demonstration.
func ExampleNew() {
	b := broker.New(broker.Config{})
	defer b.Close()
	if _, err := b.Listen("127.0.0.1:0"); err != nil {
		log.Fatal(err)
	}
	openChannel(b.URL())
	fmt.Println(b.CloseConnections("maintenance"))
	// Output: 1
}

// Without a socket, as a bubble of testing/synctest needs it.
func ExampleBroker_Dial() {
	b := broker.New(broker.Config{})
	defer b.Close()
	conn, err := amqp.DialConfig(b.URL(), amqp.Config{Dial: b.Dial})
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	fmt.Println(conn.RemoteAddr().Network())
	// Output: pipe
}

func ExampleBroker_Inject() {
	t := newExampleT()
	defer t.end()
	b := broker.Start(t, broker.Config{})
	remove := b.Inject(broker.Fault{
		Method: "queue.declare",
		Match:  func(r broker.Request) bool { return r.Queue == "invoices" },
		Do:     broker.CloseChannel(403, "ACCESS_REFUSED - no right to declare"),
	})

	_, err := openChannel(b.URL()).QueueDeclare("invoices", true, false, false, false, nil)
	fmt.Println(err)
	remove()
	_, err = openChannel(b.URL()).QueueDeclare("invoices", true, false, false, false, nil)
	fmt.Println(err)
	// Output:
	// Exception (403) Reason: "ACCESS_REFUSED - no right to declare"
	// <nil>
}

func ExampleNack() {
	t := newExampleT()
	defer t.end()
	b := broker.Start(t, broker.Config{})
	b.Inject(broker.Fault{Times: 1, Do: broker.Nack()})

	ch := openChannel(b.URL())
	for range 2 {
		fmt.Println(publishOrder(ch).Wait())
	}
	// Output:
	// false
	// true
}

func ExampleUnroutable() {
	t := newExampleT()
	defer t.end()
	b := broker.Start(t, broker.Config{})
	b.Inject(broker.Fault{Do: broker.Unroutable()})

	ch := openChannel(b.URL())
	returned := ch.NotifyReturn(make(chan amqp.Return, 1))
	publishOrder(ch)
	fmt.Println((<-returned).ReplyText)
	// Output: NO_ROUTE
}

func ExampleDelayConfirm() {
	t := newExampleT()
	defer t.end()
	b := broker.Start(t, broker.Config{})
	b.Inject(broker.Fault{Times: 1, Do: broker.DelayConfirm(time.Hour)})

	ch := openChannel(b.URL())
	first, second := publishOrder(ch), publishOrder(ch)
	fmt.Println(second.Wait(), first.Acked(), b.QueueLengths("/")["orders"])
	// Output: true false 2
}

func ExampleCloseChannel() {
	t := newExampleT()
	defer t.end()
	b := broker.Start(t, broker.Config{})
	b.Inject(broker.Fault{Do: broker.CloseChannel(406, "PRECONDITION_FAILED - not now")})

	ch := openChannel(b.URL())
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	publishOrder(ch)
	fmt.Println((<-closed).Reason)
	// Output: PRECONDITION_FAILED - not now
}

func ExampleCloseConnection() {
	t := newExampleT()
	defer t.end()
	b := broker.Start(t, broker.Config{})
	b.Inject(broker.Fault{Do: broker.CloseConnection(541, "INTERNAL_ERROR")})

	ch := openChannel(b.URL())
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	publishOrder(ch)
	fmt.Println((<-closed).Reason)
	// Output: INTERNAL_ERROR
}

// The client cannot know that its message has arrived, and publishes it again.
func ExampleDropConnection() {
	t := newExampleT()
	defer t.end()
	b := broker.Start(t, broker.Config{})
	b.Inject(broker.Fault{Times: 1, Do: broker.DropConnection()})

	for range 2 {
		ch := openChannel(b.URL())
		confirms := ch.NotifyPublish(make(chan amqp.Confirmation, 1))
		publishOrder(ch)
		_, confirmed := <-confirms
		fmt.Println(confirmed)
	}
	fmt.Println(b.QueueLengths("/")["orders"])
	// Output:
	// false
	// true
	// 2
}

func ExampleDelay() {
	t := newExampleT()
	defer t.end()
	b := broker.Start(t, broker.Config{})
	b.Inject(broker.Fault{Do: broker.Delay(100 * time.Millisecond)})

	ch, begin := openChannel(b.URL()), time.Now()
	fmt.Println(publishOrder(ch).Wait(), time.Since(begin) >= 100*time.Millisecond)
	// Output: true true
}

func ExampleBroker_RefuseConnections() {
	t := newExampleT()
	defer t.end()
	b := broker.Start(t, broker.Config{})
	b.RefuseConnections(true)
	_, err := amqp.Dial(b.URL())
	fmt.Println(err != nil)
	b.RefuseConnections(false)
	_, err = amqp.Dial(b.URL())
	fmt.Println(err)
	// Output:
	// true
	// <nil>
}

func ExampleBroker_CloseConnections() {
	t := newExampleT()
	defer t.end()
	b := broker.Start(t, broker.Config{})
	closed := openChannel(b.URL()).NotifyClose(make(chan *amqp.Error, 1))
	b.CloseConnections("maintenance")
	fmt.Println(<-closed)
	// Output: Exception (320) Reason: "CONNECTION_FORCED - maintenance"
}

func ExampleBroker_DeleteQueue() {
	t := newExampleT()
	defer t.end()
	b := broker.Start(t, broker.Config{})
	publishOrder(openChannel(b.URL())).Wait()
	lost, deleted := b.DeleteQueue("/", "orders")
	fmt.Printf("%s %t\n", lost, deleted)
	// Output: [tea] true
}

func ExampleBroker_Restart() {
	t := newExampleT()
	defer t.end()
	b := broker.Start(t, broker.Config{})
	closed := openChannel(b.URL()).NotifyClose(make(chan *amqp.Error, 1))
	b.Restart(100 * time.Millisecond)
	fmt.Println(<-closed)
	_, err := amqp.Dial(b.URL())
	fmt.Println(err)
	// Output:
	// Exception (320) Reason: "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"
	// <nil>
}

func ExampleBroker_SetMemoryAlarm() {
	t := newExampleT()
	defer t.end()
	b := broker.Start(t, broker.Config{})
	conn, err := amqp.Dial(b.URL())
	if err != nil {
		t.Fatalf("%v", err)
	}
	blocked := conn.NotifyBlocked(make(chan amqp.Blocking, 1))
	ch, err := conn.Channel()
	if err != nil {
		t.Fatalf("%v", err)
	}
	b.SetMemoryAlarm(true)
	_ = ch.Publish("amq.fanout", "", false, false, amqp.Publishing{})
	fmt.Println((<-blocked).Reason)
	b.SetMemoryAlarm(false)
	fmt.Println((<-blocked).Active)
	// Output:
	// low on memory
	// false
}

func ExampleBroker_StartManagement() {
	t := newExampleT()
	defer t.end()
	b := broker.Start(t, broker.Config{})
	response, err := http.Get(b.StartManagement(t) + "/api/vhosts/%2F")
	if err != nil {
		t.Fatalf("%v", err)
	}
	defer response.Body.Close()
	fmt.Println(response.Status)
	// Output: 200 OK
}

// The management API on a server of the program's own.
func ExampleBroker_Management() {
	b := broker.New(broker.Config{})
	defer b.Close()
	server := httptest.NewServer(b.Management())
	defer server.Close()
	response, err := http.Get(strings.Replace(server.URL, "://", "://guest:guest@", 1) + "/api/whoami")
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	fmt.Println(response.Status)
	// Output: 200 OK
}

// A program that consumes from its own broker closes the connections of publishers
// first, and then handles the messages that are left.
func ExampleBroker_CloseExternal() {
	b := broker.New(broker.Config{})
	defer b.Close()
	if _, err := b.Listen("127.0.0.1:0"); err != nil {
		log.Fatal(err)
	}
	internal, err := b.ListenInternal("127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	publisher := openChannel(b.URL())
	consumer := openChannel("amqp://guest:guest@" + internal.String())
	publishOrder(publisher).Wait()

	b.CloseExternal()
	order, there, err := consumer.Get("orders", true)
	fmt.Println(string(order.Body), there, err)
	// Output: tea true <nil>
}

// AMQP over TLS.
func ExampleBroker_Serve() {
	b := broker.New(broker.Config{})
	defer b.Close()
	https := httptest.NewTLSServer(nil) // for its certificate
	defer https.Close()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: https.TLS.Certificates})
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = b.Serve(listener) }() // until Close

	authorities := https.Client().Transport.(*http.Transport).TLSClientConfig
	conn, err := amqp.DialTLS("amqps://guest:guest@"+listener.Addr().String(), authorities)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(conn.ConnectionState().HandshakeComplete)
	// Output: true
}

// exampleT stands for *testing.T, which examples do not have.
type exampleT struct{ cleanups []func() }

func newExampleT() *exampleT { return &exampleT{} }

func (t *exampleT) Helper() {}

func (t *exampleT) Cleanup(f func()) { t.cleanups = append(t.cleanups, f) }

func (t *exampleT) Fatalf(format string, args ...any) { log.Fatalf(format, args...) }

func (t *exampleT) end() {
	for _, f := range t.cleanups {
		f()
	}
}

// openChannel opens a channel with confirms, and declares a queue for orders.
func openChannel(url string) *amqp.Channel {
	conn, err := amqp.Dial(url)
	if err != nil {
		log.Fatal(err)
	}
	ch, err := conn.Channel()
	if err == nil {
		err = ch.Confirm(false)
	}
	if err == nil {
		_, err = ch.QueueDeclare("orders", true, false, false, false, nil)
	}
	if err != nil {
		log.Fatal(err)
	}
	return ch
}

// publishOrder publishes an order.
func publishOrder(ch *amqp.Channel) *amqp.DeferredConfirmation {
	confirm, err := ch.PublishWithDeferredConfirm("", "orders", true, false, amqp.Publishing{Body: []byte("tea")})
	if err != nil && !errors.Is(err, amqp.ErrClosed) {
		log.Fatal(err)
	}
	return confirm
}
