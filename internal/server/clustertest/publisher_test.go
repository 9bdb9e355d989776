package clustertest

import (
	"context"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// kind is how the service treats a message.
type kind string

const (
	good   kind = "good"   // it succeeds
	again  kind = "again"  // its first attempt fails
	poison kind = "poison" // it fails for good
)

// message is a message that was sent.
type message struct {
	id        string
	kind      kind
	account   string // of messages of the ledger
	version   int    // its number in the account
	published time.Time
	confirmed time.Time // zero: its fate is unknown
}

// publisher sends messages from one connection at a time, and goes on at another node when it loses the
// connection. It sends no message again, so that none is there twice because of it.
type publisher struct {
	run    string
	number int
	nodes  []node // in the order in which they are tried
	every  time.Duration

	versions map[string]int // by account
	sent     int

	mu  sync.Mutex // guards all
	all []*message
}

// accounts is the number of keys of the ledger that each publisher has.
const accounts = 7

// publish sends messages until the context ends, and waits for the confirms of the last.
func (p *publisher) publish(ctx context.Context) {
	for attempt := 0; ctx.Err() == nil; attempt++ {
		p.session(ctx, p.nodes[attempt%len(p.nodes)])
	}
}

// session sends messages on one connection until it is lost, silent for too long, or the context ends.
func (p *publisher) session(ctx context.Context, n node) {
	connection, err := amqp.DialConfig(fmt.Sprintf("amqp://guest:guest@%s:5672/", n), amqp.Config{Heartbeat: 4 * time.Second, Dial: amqp.DefaultDial(2 * time.Second)})
	if err != nil {
		return
	}
	defer func() { _ = connection.CloseDeadline(time.Now().Add(time.Second)) }()
	channel, err := connection.Channel()
	if err != nil {
		return
	}
	if err := channel.Confirm(false); err != nil {
		return
	}
	confirms := channel.NotifyPublish(make(chan amqp.Confirmation, most))
	open := map[uint64]*message{}
	ticks := time.NewTicker(p.every)
	defer ticks.Stop()
	silent := time.NewTimer(patience)
	defer silent.Stop()
	stopped := ctx.Done()
	for stopped != nil || len(open) > 0 {
		select {
		case <-stopped:
			stopped = nil
		case <-silent.C:
			return
		case confirm, connected := <-confirms:
			if !connected {
				return
			}
			if confirm.Ack {
				p.confirm(open[confirm.DeliveryTag])
			}
			delete(open, confirm.DeliveryTag)
			silent.Reset(patience)
		case <-ticks.C:
			if stopped == nil || len(open) >= most {
				continue
			}
			if len(open) == 0 {
				silent.Reset(patience)
			}
			m := p.next()
			open[channel.GetNextPublishSeqNo()] = m
			if err := channel.PublishWithContext(ctx, "shop", m.key(), false, false, m.publishing(p.run)); err != nil {
				return
			}
		}
	}
}

const (
	most     = 300              // messages without a confirm
	patience = 20 * time.Second // with a connection that confirms nothing
)

// next makes the next message.
func (p *publisher) next() *message {
	p.sent++
	m := &message{id: fmt.Sprintf("%s-%d-%d", p.run, p.number, p.sent), kind: good, published: time.Now()}
	switch {
	case p.sent%23 == 7:
		m.kind = again
	case p.sent%57 == 13:
		m.kind = poison
	}
	if p.sent%4 == 0 {
		m.account = fmt.Sprintf("%s-%d-%d", p.run, p.number, p.sent/4%accounts)
		p.versions[m.account]++
		m.version = p.versions[m.account]
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, m)
	return m
}

func (p *publisher) confirm(m *message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m.confirmed = time.Now()
}

func (m *message) key() string {
	if m.account != "" {
		return "ledger.booked"
	}
	return "order.created"
}

func (m *message) publishing(run string) amqp.Publishing {
	headers := amqp.Table{"run": run, "kind": string(m.kind)}
	if m.account != "" {
		headers["account"], headers["version"] = m.account, int64(m.version)
	}
	return amqp.Publishing{
		DeliveryMode: amqp.Persistent, MessageId: m.id, Timestamp: m.published, ContentType: "application/json", Headers: headers,
		Body: fmt.Appendf(nil, `{"id":%q,"text":"%0300d"}`, m.id, m.version),
	}
}

// account returns copies of all messages.
func (p *publisher) account() (all []message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.all {
		all = append(all, *m)
	}
	return all
}
