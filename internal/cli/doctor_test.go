package cli

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
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
	"github.com/watershipmq/watership/schemas"
)

// findings returns the findings of doctor, each with its remedy.
func (i *installation) findings(t *testing.T) (list []doctor.Finding, code int) {
	t.Helper()
	r := i.run(t, "doctor", "-o", "json")
	if err := json.Unmarshal([]byte(r.out), &list); err != nil {
		t.Fatalf("%v\n%s%s", err, r.out, r.err)
	}
	return list, r.code
}

func saying(list []doctor.Finding, v doctor.Verdict, words ...string) *doctor.Finding {
	for _, f := range list {
		all := f.Verdict == v
		for _, word := range words {
			all = all && strings.Contains(f.Check+": "+f.Detail, word)
		}
		if all {
			return &f
		}
	}
	return nil
}

func wantFinding(t *testing.T, list []doctor.Finding, v doctor.Verdict, remedy string, words ...string) {
	t.Helper()
	found := saying(list, v, words...)
	if found == nil || !strings.Contains(found.Remedy, remedy) {
		t.Errorf("no %s with %q and the remedy %q in %+v", v, words, remedy, list)
	}
}

// The counts of the management API are up to 5 s old, and double after a change of leader.
func TestDoctorAsksQueuesForTheirMessages(t *testing.T) {
	onBoth(t, func(t *testing.T, p parts) {
		i := p.install(t, "http://127.0.0.1:1/")
		i.must(t, "setup")
		channel, queue := p.broker.Channel(t), i.prefix+".poison"
		for range 3 {
			if err := channel.Publish("", queue, false, false, amqp.Publishing{}); err != nil {
				t.Fatal(err)
			}
		}
		rabbittest.Eventually(t, "the messages wait", func() bool { return p.broker.Len(t, queue) == 3 })
		list, _ := i.findings(t)
		wantFinding(t, list, doctor.Warning, "run watership serve", "lag: "+queue+" has 3 messages and no consumer")
	})
}

func TestDoctor(t *testing.T) {
	onEvery(t, func(t *testing.T, p parts) {
		p.broker = p.broker.VHost(t) // without queues of other tests, of which doctor names only some
		broker := p.broker
		i := p.install(t, "http://127.0.0.1:1/")
		list, code := i.findings(t)
		if code != exitFailed {
			t.Errorf("nothing is set up, and doctor exits with %d", code)
		}
		for _, check := range []string{p.unmade, "topology: missing", "routes: queue", "bindings: exchange", "tap: exchange"} {
			wantFinding(t, list, doctor.Error, "watership setup", check)
		}
		channel := broker.Channel(t)
		if err := channel.ExchangeDeclare(i.exchange, "topic", true, false, false, false, amqp.Table{"alternate-exchange": "amq.fanout"}); err != nil {
			t.Fatal(err)
		}
		i.must(t, "setup")
		list, code = i.findings(t)
		if code != exitOK {
			t.Errorf("all is set up, and doctor exits with %d: %+v", code, list)
		}
		for _, check := range []string{"broker", "permissions", "management", "version: RabbitMQ " + broker.Version, "store", "templates", "topology", "routes", "bindings", "returns", "tap", "delays", "lag", "clock: the clock of the broker", "clock: the clock of " + p.kind} {
			wantFinding(t, list, doctor.OK, "", check)
		}
		wantFinding(t, list, doctor.Warning, "do not tap it", i.exchange, "alternate exchange amq.fanout")
		if p.policies {
			i.checkLimiting(t, broker)
		}
		i.checkReturns(t, channel)
		i.checkForeign(t, broker, channel)
		i.checkStuck(t, channel)
		i.checkWatermarks(t, openStore(t, i.store, i.stream))
	})
}

// checkReturns wants findings about exchanges of a former release, and setup to mend them.
func (i *installation) checkReturns(t *testing.T, channel *amqp.Channel) {
	t.Helper()
	names := schemas.Topology{Prefix: i.prefix}
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
	if err := channel.QueueBind(names.Delays().Due(), names.Delays().Due(), names.Direct(), false, nil); err != nil {
		t.Fatal(err)
	}
	list, _ := i.findings(t)
	for _, name := range []string{names.Direct(), names.Events()} {
		wantFinding(t, list, doctor.Error, "watership setup", "returns: exchange "+name+" has the alternate exchange amq.fanout")
	}
	wantFinding(t, list, doctor.Warning, "watership setup", "returns: exchange "+names.Return()+" is of a former release")
	i.must(t, "setup")
	list, _ = i.findings(t)
	wantFinding(t, list, doctor.OK, "", "returns")
}

// checkWatermarks wants a warning of an indexer that was killed a while ago.
func (i *installation) checkWatermarks(t *testing.T, store testStore) {
	t.Helper()
	if list, _ := i.findings(t); saying(list, doctor.Warning, "watermarks") != nil {
		t.Errorf("no queue was indexed, and doctor says: %+v", list)
	}
	const source = "test" // of settingsOf
	queue := schemas.Topology{Prefix: i.prefix}.Log()
	killed := eventstore.Watermark{Session: "killed", Sequence: 7, Updated: time.Now().Add(-time.Hour)}
	document, err := json.Marshal(eventstore.Watermarks{Source: source, Queues: map[string]eventstore.Watermark{queue: killed}})
	if err != nil {
		t.Fatal(err)
	}
	if version, err := store.CreateRecord(t.Context(), eventstore.WatermarkRecord, source, document); version == "" || err != nil {
		t.Fatalf("%q, %v", version, err)
	}
	list, _ := i.findings(t)
	wantFinding(t, list, doctor.Warning, "run watership serve with the role index", "watermarks: readers of new events wait at position 7", queue)
}

// An index of Elasticsearch whose shard is on no node, as where disks are nearly
// full: everything else looks well, and nothing is stored.
func TestAShardOnNoNode(t *testing.T) {
	t.Parallel()
	p := around(t, rabbittest.NewestServer(t))
	i := p.install(t, "http://127.0.0.1:1/")
	i.serve(t)
	publish := func(id string) {
		err := p.broker.Channel(t).Publish(i.exchange, "k", false, false, amqp.Publishing{MessageId: id, Body: []byte("{}")})
		if err != nil {
			t.Fatal(err)
		}
	}
	publish("before")
	published := `watership_index_events_total{action="published"}`
	until(t, "it to be recorded", func() bool { return i.scrape(t)[published] == 1 })
	i.wantReady(t)
	found := storetest.UnassignShard(t, p.storeURL, i.stream+"-traffic")
	publish("meanwhile")
	i.wantAway(t, "store: index .ds-"+i.stream+"-traffic")
	list, _ := i.findings(t)
	wantFinding(t, list, doctor.Error, "make room", "indices", ".ds-"+i.stream+"-traffic", "nowhere")
	found()
	i.wantReady(t)
	until(t, "the other to be recorded", func() bool { return i.scrape(t)[published] == 2 })
}

// checkLimiting lets a catch-all policy limit our queues, and does what doctor says.
func (i *installation) checkLimiting(t *testing.T, broker rabbittest.Broker) {
	t.Helper()
	policy(t, broker, i.prefix+"-all", `{"pattern":"^`+i.prefix+`","definition":{"delivery-limit":3,"max-length":1000000},"priority":4,"apply-to":"queues"}`)
	var list []doctor.Finding
	until(t, "the policy of every queue", func() bool { // the broker applies it to one after the other
		list, _ = i.findings(t)
		return saying(list, doctor.Error, "delivery-limit 3, max-length 1000000", "in 11 queues") != nil && saying(list, doctor.Error, "routes") != nil
	})
	wantFinding(t, list, doctor.Error, `--priority 5 --apply-to queues watership-unlimited '^`+i.prefix+`\.' '{"max-length":2147483647}'`,
		`policy "`+i.prefix+`-all" limits what must not be dropped (delivery-limit 3, max-length 1000000) in `, i.prefix+".log, "+i.prefix+".index, ")
	wantFinding(t, list, doctor.Error, `--apply-to queues `+i.queue+`-dead-letters '^`+regexp.QuoteMeta(i.queue)+`$' '{"dead-letter-exchange":"`+i.prefix+`.retry"}'`, "queue "+i.queue+" drops a message after 3 deliveries")
	i.checkLimitsAreSaid(t)
	policy(t, broker, i.prefix+"-ours", `{"pattern":"^`+i.prefix+`\\.","definition":{"max-length":2147483647},"priority":5,"apply-to":"queues"}`)
	policy(t, broker, i.prefix+"-route", `{"pattern":"^`+i.queue+`$","definition":{"dead-letter-exchange":"`+i.prefix+`.retry"},"priority":5,"apply-to":"queues"}`)
	until(t, "the remedies to help", func() bool {
		_, code := i.findings(t)
		return code == exitOK
	})
	i.must(t, "setup")
}

// checkLimitsAreSaid wants setup to fail and serve to log what doctor says of limits.
func (i *installation) checkLimitsAreSaid(t *testing.T) {
	t.Helper()
	says := func(text string) bool {
		return strings.Contains(text, "limits what must not be dropped (delivery-limit 3, max-length 1000000)") &&
			strings.Contains(text, "--priority 5 --apply-to queues watership-unlimited") &&
			strings.Contains(text, "queue "+i.queue+" drops a message after 3 deliveries")
	}
	if r := i.run(t, "setup"); r.code != exitFailed || !says(r.err) || !strings.Contains(r.out, "templates   installed") {
		t.Errorf("setup does not fail with the limits: %+v", r)
	}
	p := i.serve(t)
	until(t, "serve to log the limits", func() bool { return says(p.logs.String()) })
	p.stop(t)
}

// checkForeign looks at the queues of others.
func (i *installation) checkForeign(t *testing.T, broker rabbittest.Broker, channel *amqp.Channel) {
	t.Helper()
	for name, args := range map[string]amqp.Table{
		i.prefix + "-loose":   {"x-dead-letter-exchange": i.prefix + ".retry"},
		i.prefix + "-nowhere": {"x-dead-letter-exchange": i.prefix + "-gone"},
	} {
		if _, err := channel.QueueDeclare(name, true, false, false, false, args); err != nil {
			t.Fatal(err)
		}
	}
	var list []doctor.Finding
	until(t, "the queues", func() bool {
		list, _ = i.findings(t)
		return saying(list, doctor.Warning, i.prefix+"-nowhere ("+i.prefix+"-gone)") != nil
	})
	found := false
	for _, f := range list {
		found = found || f.Check == "dead letters" && strings.Contains(f.Detail, "at most once")
	}
	if !found {
		t.Errorf("no word of at most once: %+v", list)
	}
}

// checkStuck takes the queue away that a delay queue dead-letters to.
func (i *installation) checkStuck(t *testing.T, channel *amqp.Channel) {
	t.Helper()
	topology := schemas.Topology{Prefix: i.prefix}
	if _, err := channel.QueueDelete(topology.Delays().Due(), false, false, false); err != nil {
		t.Fatal(err)
	}
	if err := channel.Publish("", topology.Delays().Queue(100*time.Millisecond), false, false, amqp.Publishing{}); err != nil {
		t.Fatal(err)
	}
	var list []doctor.Finding
	until(t, "the delay queue to be stuck", func() bool {
		list, _ = i.findings(t)
		return saying(list, doctor.Error, "delays", topology.Delays().Queue(100*time.Millisecond)) != nil
	})
	wantFinding(t, list, doctor.Error, "watership setup", "topology: missing: "+topology.Delays().Due())
}

// policy sets a policy for names of this test alone, until it ends.
func policy(t *testing.T, broker rabbittest.Broker, name, definition string) {
	t.Helper()
	send := func(method, body string) {
		request, err := http.NewRequest(method, broker.ManagementURL+"/api/policies/"+url.PathEscape(broker.VHostName(t))+"/"+name, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if text, _ := io.ReadAll(response.Body); response.StatusCode >= 300 {
			t.Fatalf("%s policy %s: %s %s", method, name, response.Status, text)
		}
	}
	send(http.MethodPut, definition)
	t.Cleanup(func() { send(http.MethodDelete, "") })
}

func TestDoctorWithoutServers(t *testing.T) {
	t.Parallel() // most of it is waiting
	environ := []string{"WATERSHIP_AMQP_URL=amqp://127.0.0.1:1/", "WATERSHIP_STORE_URL=http://127.0.0.1:1"}
	got := call(t.Context(), strings.NewReader(""), environ, "doctor")
	if got.code != exitFailed || got.err != "watership: doctor found 2 errors\n" {
		t.Errorf("%+v", got)
	}
	for _, want := range []string{"error broker connecting to amqp://127.0.0.1:1/", "→ start RabbitMQ", "error store reading the privileges of the login", "warning management"} {
		if !strings.Contains(columnsOf(got.out), want) {
			t.Errorf("%q is not in\n%s", want, columnsOf(got.out))
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
		if got.code != exitFailed || !strings.Contains(got.out, remedy) {
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
		if got.code != exitFailed || !strings.Contains(got.out, remedy) {
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
			if !strings.Contains(got.out, test.remedy) {
				t.Errorf("%s%swant %s", got.out, got.err, test.remedy)
			}
		})
	}
}

// A store that is away is one finding.
func TestDoctorWithoutAStore(t *testing.T) {
	t.Parallel()
	broker := rabbittest.Newest(t)
	got := call(t.Context(), strings.NewReader(""), []string{"WATERSHIP_AMQP_URL=" + broker.URL, "WATERSHIP_STORE_URL=http://127.0.0.1:1"}, "doctor")
	if n := strings.Count(got.out, "no answer from Elasticsearch"); got.code != exitFailed || n != 1 {
		t.Errorf("%d findings about the store, want 1\n%s", n, got.out)
	}
}
