package doctor

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/schemas"
)

// setUpOther declares the topology of another prefix on the broker of a site.
func setUpOther(t *testing.T, s *site, prefix string) schemas.Topology {
	t.Helper()
	other := s.Pipeline
	other.Topology = schemas.Topology{Prefix: prefix}
	must(t, pipeline.Declare(t.Context(), other))
	return other.Topology
}

func TestAPrefixThatNoProcessUses(t *testing.T) {
	s := newSetUpSite(t)
	former := setUpOther(t, s, "former")
	want(t, of("leftovers", Run(t.Context(), s.Config)), Warning, "no process uses topology.prefix former, which is still in the virtual host", "run watership setup --retire former")
	_, err := s.channel.Consume(former.Due(), "", false, false, false, false, nil)
	must(t, err)
	wantNone(t, of("leftovers", Run(t.Context(), s.Config)), "former")
}

func TestAnExchangeThatIsStillTapped(t *testing.T) {
	s := newSetUpSite(t)
	must(t, s.channel.ExchangeDeclare("shop", "topic", true, false, false, false, nil))
	must(t, s.channel.ExchangeBind(names().Tap(), "paid", "shop", false, nil))
	want(t, of("leftovers", Run(t.Context(), s.Config)), Warning, `exchange shop is tapped with the key "paid", which tap.exchanges does not have`, "watership setup --untap shop")
	s.Embedded = true // dev taps the exchanges of its example
	want(t, of("leftovers", Run(t.Context(), s.Config)), OK, "nothing of another configuration is left", "")
}

func TestAKeyThatIsNoLongerConfigured(t *testing.T) {
	s := newSetUpSite(t, "WATERSHIP_TAP_EXCHANGES=[{name: shop, type: topic, keys: [paid]}]")
	wantNone(t, of("leftovers", Run(t.Context(), s.Config)), "shop")
	must(t, s.channel.ExchangeBind(names().Tap(), "sent", "shop", false, nil))
	want(t, of("leftovers", Run(t.Context(), s.Config)), Warning, `exchange shop is tapped with the key "sent"`, "")
}

func TestQueuesThatNothingUses(t *testing.T) {
	const places = "watership.places.gone"
	for name, test := range map[string]struct {
		queue               string
		messages            int
		consumed, exclusive bool
		want                bool
	}{
		"with messages":            {queue: places, messages: 3, want: true},
		"empty":                    {queue: places},
		"consumed":                 {queue: places, messages: 3, consumed: true},
		"exclusive":                {queue: places, messages: 3, exclusive: true},
		"of another program":       {queue: "theirs", messages: 3},
		"of the configuration":     {queue: names().Log(), messages: 3},
		"of a configured route":    {queue: names().Places("orders"), messages: 3},
		"a delay of a handler":     {queue: "watership.wait.1234", messages: 3},
		"delays, which setup ends": {queue: "watership.delay.1000", messages: 3},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSetUpSite(t, oneRoute)
			if test.queue != names().Log() {
				_, err := s.channel.QueueDeclare(test.queue, !test.exclusive, false, test.exclusive, false, nil)
				must(t, err)
			}
			for range test.messages {
				must(t, s.channel.Publish("", test.queue, false, false, amqp.Publishing{}))
			}
			if test.consumed {
				must(t, s.channel.Qos(1, 0, false))
				_, err := s.channel.Consume(test.queue, "", false, false, false, false, nil)
				must(t, err)
			}
			s.eventuallyHolds(t, test.queue, test.messages)
			list := Leftovers(t.Context(), s.Config)
			if test.want {
				want(t, list, Warning, "queue "+places+" holds 3 messages, and nothing in the configuration uses it", "delete it if no other process")
			} else if len(list) > 0 {
				t.Error(text(list))
			}
		})
	}
}

// What the management API lists is up to five seconds old: a queue that it calls unused or empty may be
// in use or full.
func TestLeftoversAreAskedForTheirMessages(t *testing.T) {
	s := newSetUpSite(t)
	const gone, consumed = "watership.places.gone", "watership.places.consumed"
	former := setUpOther(t, s, "former")
	for _, queue := range []string{gone, consumed} {
		_, err := s.channel.QueueDeclare(queue, true, false, false, false, nil)
		must(t, err)
	}
	for _, queue := range []string{gone, consumed, consumed, former.Due()} {
		must(t, s.channel.Publish("", queue, false, false, amqp.Publishing{}))
	}
	must(t, s.channel.Qos(1, 0, false))
	_, err := s.channel.Consume(consumed, "", false, false, false, false, nil)
	must(t, err)
	s.delay(t)
	list := Leftovers(t.Context(), s.Config)
	want(t, list, Warning, "queue "+gone+" holds 1 message, and nothing", "")
	want(t, list, Warning, "no process uses topology.prefix former, which is still in the virtual host, with messages: 1 in former.due", "")
	wantNone(t, list, consumed)

	_, err = s.channel.Consume(former.Log(), "", false, false, false, false, nil)
	must(t, err)
	wantNone(t, Leftovers(t.Context(), s.Config), "former")
}

// The leader of a quorum queue that is silent is no empty queue.
func TestLeftoversWhoseLeadersAreSilent(t *testing.T) {
	s := newSetUpSite(t)
	former := setUpOther(t, s, "former")
	must(t, s.channel.Publish("", former.Due(), false, false, amqp.Publishing{}))
	s.delay(t)
	answers := 3
	s.connectTo(t, s.broker.SilentQueues(t, func(queue string) bool {
		if queue == former.Due() {
			answers--
		}
		return queue == former.Due() && answers >= 0
	}))
	want(t, Leftovers(t.Context(), s.Config), Warning, "no process uses topology.prefix former, which is still in the virtual host, with messages: 1 in former.due", "")
}

func TestLeftoversAreTheWarningsAlone(t *testing.T) {
	s := newSetUpSite(t)
	if list := Leftovers(t.Context(), s.Config); len(list) != 0 {
		t.Error(text(list))
	}
	setUpOther(t, s, "former")
	must(t, s.channel.Publish("", "former.due", false, false, amqp.Publishing{}))
	list := Leftovers(t.Context(), s.Config)
	want(t, list, Warning, "topology.prefix former", "--retire former")
	if len(list) != 1 {
		t.Error(text(list))
	}
}
