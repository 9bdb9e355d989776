package doctor

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
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
	_, err := s.channel.Consume(former.Delays().Due(), "", false, false, false, false, nil)
	must(t, err)
	wantNone(t, of("leftovers", Run(t.Context(), s.Config)), "former")
}

func TestAnExchangeThatIsStillTapped(t *testing.T) {
	s := newSetUpSite(t)
	must(t, s.channel.ExchangeDeclare("shop", "topic", true, false, false, false, nil))
	must(t, s.channel.ExchangeBind(names().Tap(), "paid", "shop", false, nil))
	want(t, of("leftovers", Run(t.Context(), s.Config)), Warning, `exchange shop is tapped with the key "paid", which tap.exchanges does not have`, "run watership setup --untap shop")
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
		queue rabbit.Queue
		want  bool
	}{
		"with messages":            {rabbit.Queue{Name: places, Messages: 3}, true},
		"empty":                    {rabbit.Queue{Name: places}, false},
		"consumed":                 {rabbit.Queue{Name: places, Messages: 3, Consumers: 1}, false},
		"exclusive":                {rabbit.Queue{Name: places, Messages: 3, Exclusive: true}, false},
		"of another program":       {rabbit.Queue{Name: "theirs", Messages: 3}, false},
		"of the configuration":     {rabbit.Queue{Name: names().Log(), Messages: 3}, false},
		"of a configured route":    {rabbit.Queue{Name: names().Places("orders"), Messages: 3}, false},
		"a delay of a handler":     {rabbit.Queue{Name: "watership.wait.1234", Messages: 3}, false},
		"delays, which setup ends": {rabbit.Queue{Name: "watership.delay.1000", Messages: 3}, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := listing(t, settings(t, oneRoute), test.queue)
			d.topology().checkUnusedQueues()
			if test.want {
				want(t, d.findings, Warning, "queue "+places+" holds 3 messages, and nothing in the configuration uses it", "delete it if no other process")
			} else if len(d.findings) > 0 {
				t.Error(text(d.findings))
			}
		})
	}
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
