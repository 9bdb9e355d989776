package doctor

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/schemas"
)

// permissions is the answer of the management API about one login that is not doctor's.
func permissions(configure, write string) string {
	return fmt.Sprintf(`[{"user":"guest","vhost":"/","configure":".*","write":".*","read":".*"},{"user":"eve","vhost":"/","configure":%q,"write":%q,"read":""}]`, configure, write)
}

// trust returns what doctor says about trust where another login has permissions.
func (s site) trust(t *testing.T, configure, write, topics string) []Finding {
	t.Helper()
	s.answer(t, "vhosts/%2F/permissions", permissions(configure, write))
	s.answer(t, "vhosts/%2F/topic-permissions", topics)
	return of("trust", Run(t.Context(), s.Config))
}

func TestLoginsThatCouldForgeStates(t *testing.T) {
	s := newSetUpSite(t)
	for name, test := range map[string]struct {
		configure, write, topics string
		forgers                  string // "": none
	}{
		"its queue alone":          {"^mine$", "^mine$", `[]`, ""},
		"no rights":                {"", "", `[]`, ""},
		"writes to poison":         {"", `^watership\.poison$`, `[]`, "eve (watership.poison)"},
		"configures poison":        {`^watership\.poison$`, "", `[]`, "eve (watership.poison)"},
		"publishes events":         {"", `^watership\.events$`, `[]`, "eve (watership.events)"},
		"reads events by topic":    {"", `^watership\.events$`, `[{"user":"eve","vhost":"/","exchange":"watership.events","write":"^$","read":".*"}]`, ""},
		"topics of another login":  {"", `^watership\.events$`, `[{"user":"bob","vhost":"/","exchange":"watership.events","write":"^$","read":".*"}]`, "eve (watership.events)"},
		"reports":                  {"", `^watership\.report$`, `[]`, ""},
		"everything":               {"", ".*", `[]`, "more)"},
		"the default exchange":     {"", `^amq\.default$`, `[]`, ""},
		"a pattern of Erlang only": {"", `(?<x>a)\g{x}\K(*FAIL)`, `[]`, "more)"},
	} {
		t.Run(name, func(t *testing.T) {
			list := s.trust(t, test.configure, test.write, test.topics)
			if test.forgers == "" {
				want(t, list, OK, "states are not signed, and no other login may write to Watership's exchanges and queues", "")
				return
			}
			want(t, list, Warning, "states are not signed, and other logins could forge them: ", "set amqp.state_key_file")
			want(t, list, Warning, test.forgers, "docs/permissions.md")
		})
	}
}

// A delay queue of a former release takes states from the default exchange.
func TestTheDefaultExchangeForgesStatesWhereAFormerDelayQueueIs(t *testing.T) {
	s := newSetUpSite(t)
	s.answer(t, "vhosts/%2F/permissions", permissions("", `^amq\.default$`))
	s.answer(t, "vhosts/%2F/topic-permissions", `[]`)
	_, err := s.channel.QueueDeclare(wire.DelaysOf(names()).Former(time.Hour), true, false, false, false, nil)
	must(t, err)
	want(t, of("trust", Run(t.Context(), s.Config)), Warning, "could forge them: eve (amq.default)", "")
}

func TestSignedStatesNeedNoPermissions(t *testing.T) {
	key := strings.Repeat("k", 64)
	for name, test := range map[string]struct {
		keys           string
		verdict        Verdict
		detail, remedy string
	}{
		"signed":          {key, OK, "states are signed", ""},
		"unsigned counts": {key + "\nunsigned\n", Warning, "those that are not count as well", "take the line unsigned out"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSetUpSite(t)
			s.answer(t, "vhosts/%2F/permissions", permissions(".*", ".*"))
			var err error
			s.StateKeys, err = schemas.ParseStateKeys([]byte(test.keys))
			must(t, err)
			list := Run(t.Context(), s.Config)
			want(t, of("trust", list), test.verdict, test.detail, test.remedy)
			wantNone(t, list, "could forge")
		})
	}
}

func TestWhereLoginsCannotBeListed(t *testing.T) {
	s := newSetUpSite(t)
	s.answer(t, "vhosts/%2F/permissions", "no JSON")
	want(t, of("trust", Run(t.Context(), s.Config)), Warning, "only administrators may list the logins", "rabbitmqctl list_permissions --vhost /")
}

func TestABrokerOfOneLoginHasNoForgers(t *testing.T) {
	s := newSetUpSite(t)
	want(t, of("trust", Run(t.Context(), s.Config)), OK, "states are not signed, and the broker has one login", "")
}

// RabbitMQ 3 passes on an x-death that a publisher writes.
func TestPublishedDeathsAreTrustedByOldBrokers(t *testing.T) {
	s := newSetUpSite(t)
	for version, trusted := range map[string]bool{"3.10.8": true, "3.13.7": true, "4.0.5": false, "4.3.0": false} {
		s.answer(t, "overview", `{"rabbitmq_version":"`+version+`"}`)
		list := of("trust", Run(t.Context(), s.Config))
		if trusted {
			want(t, list, Warning, "RabbitMQ "+version+" passes on the x-death that a publisher writes", "set amqp.state_key_file, or upgrade to RabbitMQ 4")
		} else {
			wantNone(t, list, "x-death")
		}
	}
}

func TestLoginsThatMayReport(t *testing.T) {
	s := newSetUpSite(t)
	const reports = `^watership\.report$`
	topic := func(write string) string {
		return `[{"user":"eve","vhost":"/","exchange":"watership.report","write":"` + write + `","read":""}]`
	}
	const everywhere = "logins may report on messages of every queue, and so put messages into it: eve"
	for name, test := range map[string]struct {
		write, topics string
		verdict       Verdict // "": nothing is said
		detail        string
	}{
		"no report":              {"^mine$", `[]`, "", "report on"},
		"every queue":            {reports, `[]`, Warning, everywhere},
		"every queue by topic":   {reports, topic(".*"), Warning, everywhere},
		"one queue":              {reports, topic("^(invoices)$"), OK, "1 login may report on the messages of some queues"},
		"topics of another name": {reports, `[{"user":"eve","exchange":"other","write":"^x$"}]`, Warning, everywhere},
	} {
		t.Run(name, func(t *testing.T) {
			list := s.trust(t, "", test.write, test.topics)
			if test.verdict == "" {
				wantNone(t, list, test.detail)
				return
			}
			want(t, list, test.verdict, test.detail, "")
			if test.verdict == Warning {
				want(t, list, Warning, everywhere, "rabbitmqctl set_topic_permissions --vhost / LOGIN watership.report '^(QUEUE)$' '^$'")
			}
		})
	}
}

// The command of the remedy gives what Watership uses, and nothing that only begins alike.
func TestTheRemedyGrantsNoMoreThanIsNeeded(t *testing.T) {
	d := listing(t, settings(t, "WATERSHIP_TAP_EXCHANGES=[{name: shop.v1, type: topic}]"))
	d.Pipeline.Routes = []pipeline.Route{{Queue: "orders", Park: true, Bind: []pipeline.Binding{{Exchange: "sales"}}}}
	d.VHost, d.Login = "/prod eu", "watership"
	command := d.permissionsCommand()
	rest, begins := strings.CutPrefix(command, "rabbitmqctl set_permissions --vhost '/prod eu' watership ")
	rights := regexp.MustCompile(`'(\^[^']*)'`).FindAllStringSubmatch(rest, -1)
	if !begins || len(rights) != 3 {
		t.Fatal(command)
	}
	for i, allowed := range []map[string]bool{
		{"watership.log": true, "orders.poison": true, "orders": false, "sales": false, "shop.v1": false},
		{"watership.log": true, "orders.poison": true, "orders": true, "sales": false, "shop.v1": true},
		{"watership.log": true, "orders": true, "sales": true, "shop.v1": true},
	} {
		for _, other := range []string{"watershipx.log", "amq.default", "xorders", "orders2", "shop-v1", "shop.v12"} {
			allowed[other] = false
		}
		for name, want := range allowed {
			if got := allows(rights[i][1], name); got != want {
				t.Errorf("right %d allows %s: %t", i, name, got)
			}
		}
	}
}

func TestPermissionsMatchAnywhereInAName(t *testing.T) {
	for name, test := range map[string]struct {
		pattern string
		want    bool
	}{"nothing": {"", false}, "all": {".*", true}, "a part": {"ship", true}, "anchored": {"^ship", false}} {
		if got := allows(test.pattern, "watership.log"); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestThePriorityOfAPolicy(t *testing.T) {
	if got := listing(t, settings(t)).policyPriority("none"); got != 0 {
		t.Errorf("%d", got)
	}
	d := listing(t, settings(t))
	d.policies = []rabbit.Policy{{Name: "a", Priority: 3}}
	if got := d.policyPriority("a"); got != 3 {
		t.Errorf("%d", got)
	}
}
