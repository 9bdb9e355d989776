package doctor

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
)

const oneTap = "WATERSHIP_TAP_EXCHANGES=[{name: shop, type: topic}]"

func TestAMissingBindingIsNamed(t *testing.T) {
	for name, test := range map[string]struct{ queue, exchange, key string }{
		"copies of messages": {names().Index(), names().Tap(), ""},
		"late copies":        {names().IndexLate(), names().Late(), ""},
		"events":             {names().Log(), names().Events(), "#"},
		"dead letters":       {names().Retry(), names().Retry(), "#"},
		"reports":            {names().Report(), names().Report(), "#"},
		"due messages":       {names().Due(), names().Direct(), names().Due()},
		"poison messages":    {names().Poison(), names().Direct(), names().Poison()},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSetUpSite(t)
			must(t, s.channel.QueueUnbind(test.queue, test.key, test.exchange, nil))
			list := of("bindings", Run(t.Context(), s.Config))
			want(t, list, Error, "queue "+test.queue+" is not bound to exchange "+test.exchange+` with key "`+test.key+`"`, "run watership setup")
			if len(list) != 1 {
				t.Errorf("%d findings\n%s", len(list), text(list))
			}
		})
	}
}

func TestTheQueueOfARouteIsBound(t *testing.T) {
	s := newSetUpSite(t, oneRoute)
	must(t, s.channel.QueueUnbind("orders", "orders", names().Direct(), nil))
	want(t, of("bindings", Run(t.Context(), s.Config)), Error, "queue orders is not bound to exchange "+names().Direct(), "run watership setup")
}

func TestAMissingExchangeIsNamed(t *testing.T) {
	for _, name := range []string{names().Events(), names().Late(), names().Return()} {
		t.Run(name, func(t *testing.T) {
			s := newSetUpSite(t)
			must(t, s.channel.ExchangeDelete(name, false, false))
			want(t, of("bindings", Run(t.Context(), s.Config)), Error, "exchange "+name+" is missing", "run watership setup")
		})
	}
}

// Copies go to a queue whose name has the limit: after a change of it the former queue is bound.
func TestAFormerIndexQueueIsNamed(t *testing.T) {
	s := newSetUpSite(t)
	s.Topology.IndexLimit = 1000
	want(t, of("bindings", Run(t.Context(), s.Config)), Error,
		"queue "+names().Index()+" is bound to the tap, and tap.when_full, tap.limit, tap.queue_type and index.partitions say "+s.Topology.Index(), "stop serve and run watership setup")
}

func TestTappedExchanges(t *testing.T) {
	for name, test := range map[string]struct {
		change         func(t *testing.T, s *site)
		verdict        Verdict
		detail, remedy string
	}{
		"as configured": {func(*testing.T, *site) {}, OK, "exchange shop is tapped", ""},
		"not bound": {
			func(t *testing.T, s *site) { must(t, s.channel.ExchangeUnbind(names().Tap(), "#", "shop", false, nil)) },
			Error, `exchange shop is not tapped: nothing binds watership.tap to it with key "#"`, "run watership setup",
		},
		"gone": {
			func(t *testing.T, s *site) { must(t, s.channel.ExchangeDelete("shop", false, false)) },
			Error, "exchange shop is missing", "take it out of tap.exchanges",
		},
		"another type": {
			func(t *testing.T, s *site) {
				must(t, s.channel.ExchangeDelete("shop", false, false))
				must(t, s.channel.ExchangeDeclare("shop", "direct", true, false, false, false, nil))
			},
			Error, "exchange shop is of type direct, tap.exchanges says topic", "give tap.exchanges the type that the exchange has",
		},
		"with an alternate exchange": {
			func(t *testing.T, s *site) {
				must(t, s.channel.ExchangeDelete("shop", false, false))
				must(t, s.channel.ExchangeDeclare("shop", "topic", true, false, false, false, amqp.Table{"alternate-exchange": "amq.fanout"}))
			},
			Warning, "exchange shop has the alternate exchange amq.fanout, which gets nothing while it is tapped", "do not tap it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSetUpSite(t, oneTap)
			test.change(t, s)
			want(t, of("tap", Run(t.Context(), s.Config)), test.verdict, test.detail, test.remedy)
		})
	}
}

// A direct exchange is tapped with the keys of its other bindings.
func TestADirectExchangeIsTappedWithEachKey(t *testing.T) {
	s := newSetUpSite(t, "WATERSHIP_TAP_EXCHANGES=[{name: shop, type: direct}]")
	queue := s.broker.Queue(t, nil)
	want(t, of("tap", Run(t.Context(), s.Config)), OK, "exchange shop is tapped", "")
	must(t, s.channel.QueueBind(queue, "paid", "shop", false, nil))
	want(t, of("tap", Run(t.Context(), s.Config)), Error, `nothing binds watership.tap to it with key "paid"`, "run watership setup")
	must(t, s.channel.ExchangeBind(names().Tap(), "paid", "shop", false, nil))
	want(t, of("tap", Run(t.Context(), s.Config)), OK, "exchange shop is tapped", "")
}

func TestTheAlternateExchangeMayBeOfAPolicy(t *testing.T) {
	d := listing(t, settings(t))
	d.policies = []rabbit.Policy{
		{Name: "other", Definition: map[string]any{"alternate-exchange": "wrong"}},
		{Name: "mine", Definition: map[string]any{"alternate-exchange": "rest"}},
	}
	for want, exchange := range map[string]rabbit.Exchange{
		"rest": {Policy: "mine"}, "args": {Policy: "mine", Arguments: map[string]any{"alternate-exchange": "args"}}, "": {Policy: "none"},
	} {
		if got := d.alternateExchange(exchange); got != want {
			t.Errorf("%+v: %q, want %q", exchange, got, want)
		}
	}
}

func TestExchangesOfAFormerRelease(t *testing.T) {
	for name, test := range map[string]struct {
		exchange, kind string
		arguments      amqp.Table
		verdict        Verdict
		detail         string
	}{
		"not bound to itself": {names().Return(), "headers", nil, Warning, "exchange watership.return is of a former release"},
		"another alternate exchange": {
			names().Events(), "topic",
			amqp.Table{"alternate-exchange": "amq.fanout"},
			Error, "exchange watership.events has the alternate exchange amq.fanout, which takes messages that no queue gets",
		},
		"its alternate exchange": {names().Events(), "topic", amqp.Table{"alternate-exchange": names().Events()}, OK, "RabbitMQ returns what no queue gets"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSetUpSite(t)
			must(t, s.channel.ExchangeDelete(test.exchange, false, false))
			must(t, s.channel.ExchangeDeclare(test.exchange, test.kind, true, false, false, false, test.arguments))
			want(t, of("returns", Run(t.Context(), s.Config)), test.verdict, test.detail, "")
		})
	}
}

func TestADirectExchangeReturnsWithABindingForEachQueue(t *testing.T) {
	queue := func(key string) rabbit.Binding {
		return rabbit.Binding{DestinationType: "queue", Destination: key, RoutingKey: key}
	}
	itself := func(key string) rabbit.Binding {
		return rabbit.Binding{DestinationType: "exchange", Destination: "x", RoutingKey: key}
	}
	for name, test := range map[string]struct {
		kind     string
		bindings []rabbit.Binding
		want     bool
	}{
		"direct":               {"direct", []rabbit.Binding{queue("a"), itself("a")}, true},
		"direct, one lacks it": {"direct", []rabbit.Binding{queue("a"), itself("a"), queue("b")}, false},
		"topic":                {"topic", []rabbit.Binding{itself("#")}, true},
		"topic, another key":   {"topic", []rabbit.Binding{itself("a")}, false},
		"fanout":               {"fanout", []rabbit.Binding{itself("")}, true},
		"headers, none":        {"headers", nil, false},
	} {
		if got := returnsAll(rabbit.Exchange{Name: "x", Type: test.kind}, test.bindings); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestDeadLettersThatAreLost(t *testing.T) {
	safe := amqp.Table{
		"x-queue-type": "quorum", "x-dead-letter-exchange": "amq.fanout", "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
	}
	atMostOnce := amqp.Table{"x-queue-type": "quorum", "x-dead-letter-exchange": "amq.fanout"}
	for name, test := range map[string]struct {
		arguments amqp.Table
		verdict   Verdict
		detail    string
	}{
		"none":            {nil, OK, "no queue loses any"},
		"at least once":   {safe, OK, "no queue loses any"},
		"at most once":    {atMostOnce, Warning, "dead-lettering is at most once, so that a crash of the broker can lose a dead letter, of theirs"},
		"to nowhere":      {amqp.Table{"x-dead-letter-exchange": "gone"}, Warning, "the dead-letter exchange is missing, so rejected messages are dropped, of theirs (gone)"},
		"by the default":  {amqp.Table{"x-dead-letter-exchange": ""}, Warning, "at most once"},
		"a classic queue": {amqp.Table{"x-dead-letter-exchange": "amq.fanout"}, Warning, "at most once"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSetUpSite(t)
			_, err := s.channel.QueueDeclare("theirs", true, false, false, false, test.arguments)
			must(t, err)
			want(t, of("dead_letters", Run(t.Context(), s.Config)), test.verdict, test.detail, "")
		})
	}
}

// RabbitMQ falls back to at-most-once silently if one of three conditions is missing.
func TestDeadLettersAtLeastOnce(t *testing.T) {
	const strategy, overflow = "at-least-once", "reject-publish"
	for name, test := range map[string]struct {
		queue rabbit.Queue
		want  bool
	}{
		"arguments":   {rabbit.Queue{Type: "quorum", Arguments: map[string]any{"x-dead-letter-strategy": strategy, "x-overflow": overflow}}, true},
		"a policy":    {rabbit.Queue{Type: "quorum", Effective: map[string]any{"dead-letter-strategy": strategy, "overflow": overflow}}, true},
		"both":        {rabbit.Queue{Type: "quorum", Arguments: map[string]any{"x-overflow": overflow}, Effective: map[string]any{"dead-letter-strategy": strategy}}, true},
		"no overflow": {rabbit.Queue{Type: "quorum", Arguments: map[string]any{"x-dead-letter-strategy": strategy}}, false},
		"classic":     {rabbit.Queue{Type: "classic", Arguments: map[string]any{"x-dead-letter-strategy": strategy, "x-overflow": overflow}}, false},
		"a policy that overrides": {rabbit.Queue{
			Type: "quorum", Arguments: map[string]any{"x-dead-letter-strategy": strategy, "x-overflow": overflow},
			Effective: map[string]any{"overflow": "drop-head"},
		}, false},
	} {
		if got := atLeastOnce(test.queue); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestExchangesThatPublishersCanUse(t *testing.T) {
	s := newSetUpSite(t)
	wantNone(t, Run(t.Context(), s.Config), "is not internal")
	s.answer(t, "exchanges/%2F/"+names().Tap(), `{"name":"watership.tap","type":"fanout","internal":false}`)
	want(t, of("trust", Run(t.Context(), s.Config)), Warning, "exchange watership.tap is not internal", "run watership setup, which makes it internal")
}

const divided = "WATERSHIP_INDEX_PARTITIONS=3"

func TestTheBindingsOfPartitionsAreNamed(t *testing.T) {
	s := newSetUpSite(t, divided)
	divides, queues := s.Topology.Partitions()
	want(t, of("bindings", Run(t.Context(), s.Config)), OK, "Watership's queues are bound to its exchanges", "")
	must(t, s.channel.QueueUnbind(queues[1], "1", divides, nil))
	want(t, of("bindings", Run(t.Context(), s.Config)), Error, "queue "+queues[1]+" is not bound to exchange "+divides+` with key "1"`, "run watership setup")
	must(t, s.channel.ExchangeUnbind(divides, "", names().Tap(), false, nil))
	want(t, of("bindings", Run(t.Context(), s.Config)), Error, "exchange "+divides+" is not bound to exchange "+names().Tap(), "run watership setup")
	must(t, s.channel.ExchangeBind(divides, "", names().Tap(), false, nil))
	s.Topology.IndexPartitions = 0
	want(t, of("bindings", Run(t.Context(), s.Config)), Error, "exchange "+divides+" is bound to the tap, and tap.when_full, tap.limit, tap.queue_type and index.partitions say watership.index", "stop serve and run watership setup")
}

func TestAMissingPluginIsNamed(t *testing.T) {
	s := newSetUpSite(t, divided)
	d := newDoctor(s.Config)
	must(t, d.read(t.Context()))
	d.types = []rabbit.ExchangeType{{Name: "fanout"}}
	d.topology().checkBindings(t.Context())
	want(t, of("bindings", d.findings), Error, "RabbitMQ has no exchanges of type x-consistent-hash", "run rabbitmq-plugins enable rabbitmq_consistent_hash_exchange on each node of RabbitMQ, or set index.partitions: 1")
}
