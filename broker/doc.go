// Package broker is an AMQP 0-9-1 broker inside the process: for trying out, for
// development and for tests. It behaves as RabbitMQ 4 does in what an ordinary
// client uses, and refuses the rest with RabbitMQ's own error. It keeps everything
// in memory, and nothing after Close.
//
// Start gives a test a broker of its own in a line, Inject makes it misbehave:
//
//	func TestOrdersAreSentAgain(t *testing.T) {
//		b := broker.Start(t, broker.Config{})
//		b.Inject(broker.Fault{Times: 1, Do: broker.Nack()})
//		sendOrder(b.URL())
//		...
//	}
//
// It is no broker for production: use RabbitMQ, and this where a test needs neither
// streams nor permissions nor policies nor anything on a disk.
//
// One lock guards the exchanges, queues, consumers and messages of a virtual host.
// A connection has two goroutines, and neither waits for the network under that
// lock: the reader takes frames, does what they ask and appends what is to be said
// to an outbox; the writer sends the outbox. One goroutine for each virtual host
// waits for what is due: messages and queues that expire.
//
//	reader ── frame ─► channel ── method ─► virtual host ─► exchange ─► queue ─► consumer
//	                                                                               │
//	writer ◄───────────────────────────── outbox ◄────── deliver, reply, confirm ──┘
//
// Section numbers are those of the AMQP 0-9-1 specification.
package broker
