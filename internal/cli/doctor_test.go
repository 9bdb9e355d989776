package cli

import (
	"encoding/json"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/storetest"
	"github.com/watershipmq/watership/internal/operate/doctor"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// The counts of the management API are up to 5 s old, and double after a change of leader.
func TestDoctorAsksQueuesForTheirMessages(t *testing.T) {
	servertest.OnEither(t, func(t *testing.T, p servertest.Parts) {
		i := p.Install(t, "http://127.0.0.1:1/")
		i.Must(t, "setup")
		channel, queue := p.Broker.Channel(t), i.Prefix+".poison"
		for range 3 {
			if err := channel.Publish("", queue, false, false, amqp.Publishing{}); err != nil {
				t.Fatal(err)
			}
		}
		rabbittest.Eventually(t, "the messages wait", func() bool { return p.Broker.Len(t, queue) == 3 })
		list, _ := i.Findings(t)
		servertest.WantFinding(t, list, doctor.Warning, "run watership serve", "lag: "+queue+" has 3 messages and no consumer")
	})
}

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
		channel := broker.Channel(t)
		if err := channel.ExchangeDeclare(i.Exchange, "topic", true, false, false, false, amqp.Table{"alternate-exchange": "amq.fanout"}); err != nil {
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
		checkReturns(t, i, channel)
		checkForeign(t, i, broker, channel)
		checkStuck(t, i, channel)
		checkWatermarks(t, i, openStore(t, i.Store, i.Stream))
	})
}

// checkReturns wants findings about exchanges of a former release, and setup to mend them.
func checkReturns(t *testing.T, i *servertest.Installation, channel *amqp.Channel) {
	t.Helper()
	names := schemas.Topology{Prefix: i.Prefix}
	for name, kind := range map[string]string{names.Direct(): "direct", names.Return(): "headers", names.Events(): "topic"} {
		var args amqp.Table
		if name != names.Return() {
			args = amqp.Table{"alternate-exchange": "amq.fanout"}
		}
		if err := channel.ExchangeDelete(name, false, false); err != nil {
			t.Fatal(err)
		}
		if err := channel.ExchangeDeclare(name, kind, true, false, false, false, args); err != nil {
			t.Fatal(err)
		}
	}
	if err := channel.QueueBind(names.Due(), names.Due(), names.Direct(), false, nil); err != nil {
		t.Fatal(err)
	}
	list, _ := i.Findings(t)
	for _, name := range []string{names.Direct(), names.Events()} {
		servertest.WantFinding(t, list, doctor.Error, "watership setup", "returns: exchange "+name+" has the alternate exchange amq.fanout")
	}
	servertest.WantFinding(t, list, doctor.Warning, "watership setup", "returns: exchange "+names.Return()+" is of a former release")
	i.Must(t, "setup")
	list, _ = i.Findings(t)
	servertest.WantFinding(t, list, doctor.OK, "", "returns")
}

// checkWatermarks wants a warning of an indexer that was killed a while ago.
func checkWatermarks(t *testing.T, i *servertest.Installation, store testStore) {
	t.Helper()
	if list, _ := i.Findings(t); servertest.Saying(list, doctor.Warning, "watermarks") != nil {
		t.Errorf("no queue was indexed, and doctor says: %+v", list)
	}
	const source = "test" // of settingsOf
	queue := schemas.Topology{Prefix: i.Prefix}.Log()
	killed := eventstore.Watermark{Session: "killed", Sequence: 7, Updated: time.Now().Add(-time.Hour)}
	document, err := json.Marshal(eventstore.Watermarks{Source: source, Queues: map[string]eventstore.Watermark{queue: killed}})
	if err != nil {
		t.Fatal(err)
	}
	if version, err := store.CreateRecord(t.Context(), eventstore.WatermarkRecord, source, document); version == "" || err != nil {
		t.Fatalf("%q, %v", version, err)
	}
	list, _ := i.Findings(t)
	servertest.WantFinding(t, list, doctor.Warning, "run watership serve with the role index", "watermarks: readers of new events wait at position 7", queue)
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

// checkForeign looks at the queues of others.
func checkForeign(t *testing.T, i *servertest.Installation, broker rabbittest.Broker, channel *amqp.Channel) {
	t.Helper()
	for name, args := range map[string]amqp.Table{
		i.Prefix + "-loose":   {"x-dead-letter-exchange": i.Prefix + ".retry"},
		i.Prefix + "-nowhere": {"x-dead-letter-exchange": i.Prefix + "-gone"},
	} {
		if _, err := channel.QueueDeclare(name, true, false, false, false, args); err != nil {
			t.Fatal(err)
		}
	}
	var list []doctor.Finding
	servertest.Until(t, "the queues", func() bool {
		list, _ = i.Findings(t)
		return servertest.Saying(list, doctor.Warning, i.Prefix+"-nowhere ("+i.Prefix+"-gone)") != nil
	})
	found := false
	for _, f := range list {
		found = found || f.Code == doctor.DeadLettersAtMostOnce && strings.Contains(f.Detail, "at most once")
	}
	if !found {
		t.Errorf("no word of at most once: %+v", list)
	}
}

// checkStuck takes the queue away that a delay queue dead-letters to.
func checkStuck(t *testing.T, i *servertest.Installation, channel *amqp.Channel) {
	t.Helper()
	topology := schemas.Topology{Prefix: i.Prefix}
	if _, err := channel.QueueDelete(topology.Due(), false, false, false); err != nil {
		t.Fatal(err)
	}
	if err := channel.Publish("", wire.DelaysOf(topology).Queue(100*time.Millisecond), false, false, amqp.Publishing{}); err != nil {
		t.Fatal(err)
	}
	var list []doctor.Finding
	servertest.Until(t, "the delay queue to be stuck", func() bool {
		list, _ = i.Findings(t)
		return servertest.Saying(list, doctor.Error, "delays", wire.DelaysOf(topology).Queue(100*time.Millisecond)) != nil
	})
	servertest.WantFinding(t, list, doctor.Error, "watership setup", "topology: missing: "+topology.Due())
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

// A broker that answers and does not let us in is not to be started.
func TestDoctorIsNotLetIn(t *testing.T) {
	t.Parallel() // most of it is waiting
	url, store := rabbittest.Newest(t).URL, "WATERSHIP_STORE_URL=sqlite:"+filepath.Join(t.TempDir(), "store.db")
	for address, remedy := range map[string]string{
		strings.Replace(url, "guest:guest", "guest:wrong", 1): "→ correct the user and the password in amqp.url",
		url + "nobody-made-this":                              "→ rabbitmqctl add_vhost nobody-made-this && rabbitmqctl set_permissions --vhost nobody-made-this guest",
	} {
		got := call(t.Context(), strings.NewReader(""), []string{"WATERSHIP_AMQP_URL=" + address, store}, "doctor")
		if got.Code != exitFailed || !strings.Contains(got.Out, remedy) {
			t.Errorf("%+v, want %s", got, remedy)
		}
	}
}

// A server that answers, but speaks another protocol, is not to be started.
func TestDoctorAtAnotherPort(t *testing.T) {
	t.Parallel()
	web, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var answering sync.WaitGroup
	answering.Go(func() { // as RabbitMQ's management API does
		for {
			conn, err := web.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 8))
			_, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
			_ = conn.Close()
		}
	})
	t.Cleanup(func() {
		_ = web.Close()
		answering.Wait()
	})
	port, store := web.Addr().String(), "WATERSHIP_STORE_URL=sqlite:"+filepath.Join(t.TempDir(), "store.db")
	for address, remedy := range map[string]string{
		"amqps://" + port + "/": "→ the server does not speak TLS at this port",
		"amqp://" + port + "/":  "→ the server does not speak AMQP at this port",
	} {
		got := call(t.Context(), strings.NewReader(""), []string{"WATERSHIP_AMQP_URL=" + address, store}, "doctor")
		if got.Code != exitFailed || !strings.Contains(got.Out, remedy) {
			t.Errorf("%+v, want %s", got, remedy)
		}
	}
}

// The remedy for what is wrong with an address names that.
func TestDoctorAtWrongAddresses(t *testing.T) {
	t.Parallel()
	broker := rabbittest.NewestServer(t)
	store := "WATERSHIP_STORE_URL=sqlite:" + filepath.Join(t.TempDir(), "store.db")
	api, err := url.Parse(broker.ManagementURL)
	if err != nil {
		t.Fatal(err)
	}
	api.User = nil
	folder := filepath.Join(t.TempDir(), "missing")
	other := broker.VHost(t)
	for name, test := range map[string]struct {
		environ []string
		remedy  string
	}{
		"a folder that is missing":   {[]string{"WATERSHIP_STORE_URL=sqlite:" + filepath.Join(folder, "store.db")}, "→ make the folder " + folder + " and run watership setup"},
		"a store of another kind":    {[]string{"WATERSHIP_STORE_URL=" + api.String()}, "→ correct the host and the port in store.url: another server answers there"},
		"the API of another broker":  {[]string{store, "WATERSHIP_AMQP_URL=" + other.URL, "WATERSHIP_AMQP_MANAGEMENT_URL=" + rabbittest.Embedded(t).ManagementURL}, "→ set amqp.management_url to the API of the broker of amqp.url"},
		"an API that is not told of": {[]string{store}, "→ amqp.management_url is derived from amqp.url"},
	} {
		t.Run(name, func(t *testing.T) {
			got := call(t.Context(), strings.NewReader(""), append([]string{"WATERSHIP_AMQP_URL=" + broker.URL}, test.environ...), "doctor")
			if !strings.Contains(got.Out, test.remedy) {
				t.Errorf("%s%swant %s", got.Out, got.Err, test.remedy)
			}
		})
	}
}

// A store that is away is one finding.
func TestDoctorWithoutAStore(t *testing.T) {
	t.Parallel()
	broker := rabbittest.Newest(t)
	got := call(t.Context(), strings.NewReader(""), []string{"WATERSHIP_AMQP_URL=" + broker.URL, "WATERSHIP_STORE_URL=http://127.0.0.1:1"}, "doctor")
	if n := strings.Count(got.Out, "no answer from Elasticsearch"); got.Code != exitFailed || n != 1 {
		t.Errorf("%d findings about the store, want 1\n%s", n, got.Out)
	}
}
