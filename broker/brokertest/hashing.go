package brokertest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	amqp "github.com/rabbitmq/amqp091-go"
)

// hashing are the behaviours of exchanges of the plugin rabbitmq_consistent_hash_exchange. A
// broker without it skips them.
func hashing() []behaviour {
	return []behaviour{
		{name: "each message to one queue", check: hashSharesOut},
		{name: "the same key to the same queue", check: hashIsStable},
		{name: "by what the arguments say", check: hashArguments},
		{name: "all without it to one queue", check: hashOfNothing},
		{name: "the weight is the share", check: hashWeights},
		{name: "a deleted queue leaves its share to others", check: hashDeletedQueue},
		{name: "exchange and key stay", check: hashKeepsOrigin},
		{name: "without a queue the alternate exchange", check: hashAlternate},
		{name: "wrong arguments", check: hashWrongArguments},
		{name: "wrong weights", check: hashWrongWeights},
	}
}

// hashExchange declares an exchange that shares messages out, and queues with weights.
func (p *probe) hashExchange(args amqp.Table, weights ...string) (exchange string, queues []string) {
	exchange = p.name()
	err := p.channel().ExchangeDeclare(exchange, "x-consistent-hash", true, false, false, false, args)
	var refused *amqp.Error
	if errors.As(err, &refused) {
		p.Skipf("the broker has no plugin rabbitmq_consistent_hash_exchange: %v", err)
	}
	p.must(err)
	p.deleteExchange(exchange)
	for _, weight := range weights {
		queue := p.queue(nil)
		p.bind(queue, weight, exchange, nil)
		queues = append(queues, queue)
	}
	return exchange, queues
}

// shares publishes messages, and returns the numbers of those that each queue got.
func (p *probe) shares(exchange string, queues []string, n int, message func(i int) (key string, m amqp.Publishing)) [][]string {
	for i := range n {
		key, m := message(i)
		m.Body = []byte(strconv.Itoa(i))
		p.publish(exchange, key, m)
	}
	ready := func() (all int) {
		for _, q := range queues {
			state, err := p.ch.QueueDeclarePassive(q, false, false, false, false, nil)
			p.must(err)
			all += state.Messages
		}
		return all
	}
	eventually(pollTime, func() bool { return ready() >= n })
	p.wantEqual("messages in the queues", ready(), n)
	shares := make([][]string, len(queues))
	for i, q := range queues {
		state, err := p.ch.QueueDeclarePassive(q, false, false, false, false, nil)
		p.must(err)
		shares[i] = p.bodies(q, state.Messages)
	}
	return shares
}

func byKey(i int) (string, amqp.Publishing) { return fmt.Sprint("key ", i), amqp.Publishing{} }

// used returns the number of queues that got messages.
func used(shares [][]string) (n int) {
	for _, share := range shares {
		n += min(1, len(share))
	}
	return n
}

func hashSharesOut(p *probe) {
	x, queues := p.hashExchange(nil, "1", "1", "1")
	p.wantEqual("queues with messages", used(p.shares(x, queues, 100, byKey)), 3)
}

func hashIsStable(p *probe) {
	x, queues := p.hashExchange(nil, "1", "1", "1")
	first := p.shares(x, queues, 40, byKey)
	p.wantEqual("the second time", p.shares(x, queues, 40, byKey), first)
}

func hashArguments(p *probe) {
	for name, args := range map[string]amqp.Table{
		"header": {"hash-header": "tenant"}, "id": {"hash-property": "message_id"}, "correlation": {"hash-property": "correlation_id"},
	} {
		x, queues := p.hashExchange(args, "1", "1")
		shares := p.shares(x, queues, 100, func(i int) (string, amqp.Publishing) {
			value := fmt.Sprint("value ", i/2)
			return fmt.Sprint(i), amqp.Publishing{MessageId: value, CorrelationId: value, Headers: amqp.Table{"tenant": value}}
		})
		p.wantEqual(name+": queues with messages", used(shares), 2)
		for i := 0; i < 100; i += 2 {
			p.wantEqual(name+": equal ones are in one queue",
				slices.Contains(shares[0], strconv.Itoa(i)), slices.Contains(shares[0], strconv.Itoa(i+1)))
		}
	}
}

func hashOfNothing(p *probe) {
	for _, args := range []amqp.Table{{"hash-header": "tenant"}, {"hash-property": "message_id"}} {
		x, queues := p.hashExchange(args, "1", "1", "1")
		p.wantEqual("queues with messages", used(p.shares(x, queues, 30, byKey)), 1)
	}
}

func hashWeights(p *probe) {
	x, queues := p.hashExchange(nil, "1", "9")
	shares := p.shares(x, queues, 300, byKey)
	p.wantEqual("the queue with the greater weight has more", len(shares[1]) > 3*len(shares[0]), true)
}

func hashDeletedQueue(p *probe) {
	x, queues := p.hashExchange(nil, "1", "1", "1")
	_, err := p.ch.QueueDelete(queues[0], false, false, false)
	p.must(err)
	p.wantEqual("queues with messages", used(p.shares(x, queues[1:], 100, byKey)), 2)
}

func hashKeepsOrigin(p *probe) {
	x, queues := p.hashExchange(nil, "1")
	from := p.exchange("fanout", nil)
	p.must(p.ch.ExchangeBind(x, "", from, false, nil))
	p.publish(from, "k", textMessage("a"))
	d := p.get(queues[0])
	p.wantEqual("exchange and key", []string{d.Exchange, d.RoutingKey}, []string{from, "k"})
}

func hashAlternate(p *probe) {
	spare, q := p.exchange("fanout", nil), p.queue(nil)
	p.bind(q, "", spare, nil)
	x, _ := p.hashExchange(amqp.Table{"alternate-exchange": spare})
	p.publish(x, "k", textMessage("a"))
	p.get(q)
}

func hashWrongArguments(p *probe) {
	p.hashExchange(nil)
	declare := func(args amqp.Table) error {
		return p.channel().ExchangeDeclare(p.name(), "x-consistent-hash", true, false, false, false, args)
	}
	p.expectError(declare(amqp.Table{"hash-property": "app_id"}), 406, "PRECONDITION_FAILED - Unsupported property: app_id")
	p.expectError(declare(amqp.Table{"hash-property": "message_id", "hash-header": "a"}), 406,
		"PRECONDITION_FAILED - hash-header and hash-property are mutually exclusive")
}

func hashWrongWeights(p *probe) {
	x, _ := p.hashExchange(nil)
	q := p.queue(nil)
	p.expectError(p.channel().QueueBind(q, "a", x, false, nil), 406, `PRECONDITION_FAILED - The binding key must be an integer: <<"a">>`)
	p.expectError(p.channel().QueueBind(q, "0", x, false, nil), 406, "PRECONDITION_FAILED - The binding key must be greater than 0")
}
