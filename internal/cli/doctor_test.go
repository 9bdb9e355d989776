package cli

import (
	"regexp"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore/storetest"
	"github.com/watershipmq/watership/internal/operate/doctor"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
)

func TestDoctor(t *testing.T) {
	servertest.OnEvery(t, func(t *testing.T, p servertest.Parts) {
		p.Broker = p.Broker.VHost(t) // without queues of other tests, of which doctor names only some
		broker := p.Broker
		i := p.Install(t, "http://127.0.0.1:1/")
		list, code := i.Findings(t)
		if code != exitFailed {
			t.Errorf("nothing is set up, and doctor exits with %d", code)
		}
		for _, check := range []string{p.Unmade, "topology: missing", "routes: queue", "bindings: exchange", "tap: exchange"} {
			servertest.WantFinding(t, list, doctor.Error, "watership setup", check)
		}
		if err := broker.Channel(t).ExchangeDeclare(i.Exchange, "topic", true, false, false, false, amqp.Table{"alternate-exchange": "amq.fanout"}); err != nil {
			t.Fatal(err)
		}
		i.Must(t, "setup")
		list, code = i.Findings(t)
		if code != exitOK {
			t.Errorf("all is set up, and doctor exits with %d: %+v", code, list)
		}
		for _, check := range []string{"broker", "permissions", "management", "version: RabbitMQ " + broker.Version, "store", "templates", "topology", "routes", "bindings", "returns", "tap", "delays", "lag", "clock: the clock of the broker", "clock: the clock of " + p.Kind} {
			servertest.WantFinding(t, list, doctor.OK, "", check)
		}
		servertest.WantFinding(t, list, doctor.Warning, "do not tap it", i.Exchange, "alternate exchange amq.fanout")
		if p.Policies {
			checkLimiting(t, i, broker)
		}
	})
}

// An index of Elasticsearch whose shard is on no node, as where disks are nearly
// full: everything else looks well, and nothing is stored.
func TestAShardOnNoNode(t *testing.T) {
	t.Parallel()
	p := servertest.Around(t, rabbittest.NewestServer(t))
	i := p.Install(t, "http://127.0.0.1:1/")
	i.Serve(t)
	publish := func(id string) {
		err := p.Broker.Channel(t).Publish(i.Exchange, "k", false, false, amqp.Publishing{MessageId: id, Body: []byte("{}")})
		if err != nil {
			t.Fatal(err)
		}
	}
	publish("before")
	published := `watership_index_events_total{action="published"}`
	servertest.Until(t, "it to be recorded", func() bool { return i.Scrape(t)[published] == 1 })
	i.WantReady(t)
	found := storetest.UnassignShard(t, p.StoreURL, i.Stream+"-traffic")
	publish("meanwhile")
	i.WantAway(t, "store: index .ds-"+i.Stream+"-traffic")
	list, _ := i.Findings(t)
	servertest.WantFinding(t, list, doctor.Error, "make room", "indices", ".ds-"+i.Stream+"-traffic", "nowhere")
	found()
	i.WantReady(t)
	servertest.Until(t, "the other to be recorded", func() bool { return i.Scrape(t)[published] == 2 })
}

// checkLimiting lets a catch-all policy limit our queues, and does what doctor says.
func checkLimiting(t *testing.T, i *servertest.Installation, broker rabbittest.Broker) {
	t.Helper()
	deadLetters := `{"dead-letter-exchange":"` + i.Prefix + `.retry","dead-letter-strategy":"at-least-once","overflow":"reject-publish"}`
	servertest.Policy(t, broker, i.Prefix+"-all", `{"pattern":"^`+i.Prefix+`","definition":{"delivery-limit":3,"max-length":1000000},"priority":4,"apply-to":"queues"}`)
	var list []doctor.Finding
	servertest.Until(t, "the policy of every queue", func() bool { // the broker applies it to one after the other
		list, _ = i.Findings(t)
		return servertest.Saying(list, doctor.Error, "delivery-limit 3, max-length 1000000", "in 11 queues") != nil && servertest.Saying(list, doctor.Error, "routes") != nil
	})
	servertest.WantFinding(t, list, doctor.Error, `--priority 5 --apply-to queues watership-unlimited '^`+i.Prefix+`\.' '{"max-length":2147483647}'`,
		`policy "`+i.Prefix+`-all" limits what must not be dropped (delivery-limit 3, max-length 1000000) in `, i.Prefix+".log, "+i.Prefix+".index, ")
	servertest.WantFinding(t, list, doctor.Error, `--apply-to queues `+i.Queue+`-dead-letters '^`+regexp.QuoteMeta(i.Queue)+`$' '`+deadLetters+`'`, "queue "+i.Queue+" drops a message after 3 deliveries")
	checkLimitsAreSaid(t, i)
	servertest.Policy(t, broker, i.Prefix+"-ours", `{"pattern":"^`+i.Prefix+`\\.","definition":{"max-length":2147483647},"priority":5,"apply-to":"queues"}`)
	servertest.Policy(t, broker, i.Prefix+"-route", `{"pattern":"^`+i.Queue+`$","definition":`+deadLetters+`,"priority":5,"apply-to":"queues"}`)
	servertest.Until(t, "the remedies to help", func() bool {
		_, code := i.Findings(t)
		return code == exitOK
	})
	i.Must(t, "setup")
}

// checkLimitsAreSaid wants setup to fail and serve to log what doctor says of limits.
func checkLimitsAreSaid(t *testing.T, i *servertest.Installation) {
	t.Helper()
	says := func(text string) bool {
		return strings.Contains(text, "limits what must not be dropped (delivery-limit 3, max-length 1000000)") &&
			strings.Contains(text, "--priority 5 --apply-to queues watership-unlimited") &&
			strings.Contains(text, "queue "+i.Queue+" drops a message after 3 deliveries")
	}
	if r := i.Run(t, "setup"); r.Code != exitFailed || !says(r.Err) || !strings.Contains(r.Out, "templates   installed") {
		t.Errorf("setup does not fail with the limits: %+v", r)
	}
	p := i.Serve(t)
	servertest.Until(t, "serve to log the limits", func() bool { return says(p.Logs.String()) })
	p.Stop(t)
}

func TestDoctorWithoutServers(t *testing.T) {
	t.Parallel() // most of it is waiting
	environ := []string{"WATERSHIP_AMQP_URL=amqp://127.0.0.1:1/", "WATERSHIP_STORE_URL=http://127.0.0.1:1"}
	got := call(t.Context(), strings.NewReader(""), environ, "doctor")
	if got.Code != exitFailed || got.Err != "watership: doctor found 2 errors\n" {
		t.Errorf("%+v", got)
	}
	for _, want := range []string{"error broker connecting to amqp://127.0.0.1:1/", "→ start RabbitMQ", "error store reading the privileges of the login", "warning management"} {
		if !strings.Contains(columnsOf(got.Out), want) {
			t.Errorf("%q is not in\n%s", want, columnsOf(got.Out))
		}
	}
}
