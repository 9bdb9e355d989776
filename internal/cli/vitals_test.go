package cli

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/schemas"
)

// rewrite changes the configuration file.
func (i *installation) rewrite(t *testing.T, old, replacement string) {
	t.Helper()
	text, err := os.ReadFile(i.config)
	if err != nil || !strings.Contains(string(text), old) {
		t.Fatalf("%s: no %q in\n%s", err, old, text)
	}
	if err := os.WriteFile(i.config, []byte(strings.ReplaceAll(string(text), old, replacement)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// ask sends a GET request to serve.
func (i *installation) ask(t *testing.T, path string) (status int, body string) {
	t.Helper()
	response, err := http.Get("http://" + i.listen + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// scrape returns the samples by name with labels.
func (i *installation) scrape(t *testing.T) map[string]float64 {
	t.Helper()
	_, body := i.ask(t, "/metrics")
	samples := map[string]float64{}
	for line := range strings.Lines(body) {
		name, value, found := strings.Cut(strings.TrimSpace(line), " ")
		if !strings.HasPrefix(line, "#") && found {
			number, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			samples[name] = number
		}
	}
	return samples
}

// wantAway waits until serve is not ready for a reason, and wants it alive.
func (i *installation) wantAway(t *testing.T, reason string) {
	t.Helper()
	var body string
	until(t, "serve not to be ready: "+reason, func() bool {
		var status int
		status, body = i.ask(t, "/readyz")
		return status == http.StatusServiceUnavailable && strings.HasPrefix(body, reason)
	})
	if strings.Count(body, "\n") != 1 {
		t.Errorf("the reason is not one line: %q", body)
	}
	if status, body := i.ask(t, "/healthz"); status != http.StatusOK {
		t.Errorf("serve is not alive: %s", body)
	}
}

func (i *installation) wantReady(t *testing.T) {
	t.Helper()
	until(t, "serve to be ready", func() bool {
		status, body := i.ask(t, "/readyz")
		return status == http.StatusOK && body == "ok\n"
	})
}

// Metrics are read while messages flow; then the store goes away, then the
// broker, and each is said and comes back.
func TestVitals(t *testing.T) { onBoth(t, testVitals) }

func testVitals(t *testing.T, p parts) {
	broker := p.broker
	service := newService(t, func(p post, _ int) int {
		if strings.HasSuffix(p.id, "7") {
			return http.StatusInternalServerError
		}
		return http.StatusOK
	})
	i := p.install(t, service.url)
	toBroker := broker.Proxy(t)
	i.rewrite(t, fmt.Sprintf("{url: %q, management", broker.URL), fmt.Sprintf("{url: %q, management", toBroker.URL))
	storeAway, storeBack := p.breakable(t, i)
	i.serve(t)
	topology := schemas.Topology{Prefix: i.prefix}
	publish := func(from, to int) {
		channel := broker.Channel(t)
		for n := from; n < to; n++ {
			err := channel.Publish(i.exchange, "k", false, false, amqp.Publishing{MessageId: fmt.Sprint("m-", n), Body: []byte("{}")})
			if err != nil {
				t.Fatal(err)
			}
		}
	}

	publish(0, 100)
	published := `watership_index_events_total{action="published"}`
	until(t, "all to be recorded", func() bool {
		got := i.scrape(t)
		return got[published] == 100 && got[`watership_index_events_total{action="poisoned"}`] == 10
	})
	i.wantMetrics(t, map[string]float64{
		`watership_attempts_total{queue="` + i.queue + `",result="handled"}`: 90,
		`watership_attempts_total{queue="` + i.queue + `",result="retry"}`:   20,
		`watership_attempts_total{queue="` + i.queue + `",result="poison"}`:  10,
		`watership_attempt_duration_seconds_count{queue="` + i.queue + `"}`:  120,
		`watership_index_events_total{action="retry_scheduled"}`:             20,
		`watership_queue_messages{queue="` + topology.Index() + `"}`:         0,
		`watership_queue_messages{queue="` + topology.Unstorable() + `"}`:    0,
		`watership_index_lag_seconds{queue="` + topology.Index() + `"}`:      0,
		`watership_server_up{server="broker"}`:                               1,
		`watership_server_up{server="store"}`:                                1,
		`watership_index_fingerprint_mismatches_total`:                       0,
		`watership_index_resent_events_total`:                                0,
		`watership_index_in_flight_bytes`:                                    0,
	})
	i.wantSound(t)
	i.wantDocumented(t)

	storeAway()
	i.wantAway(t, "store: ")
	publish(100, 110)
	until(t, "the lag to grow", func() bool {
		got := i.scrape(t)
		return got[`watership_index_lag_seconds{queue="`+topology.Index()+`"}`] > 0.5 && got[`watership_server_up{server="store"}`] == 0
	})
	storeBack()
	i.wantReady(t)
	until(t, "what waited to be recorded", func() bool {
		got := i.scrape(t)
		return got[published] == 110 && got[`watership_index_lag_seconds{queue="`+topology.Index()+`"}`] == 0
	})

	toBroker.Cut()
	i.wantAway(t, "broker: ")
	got := i.scrape(t)
	if _, known := got[`watership_queue_messages{queue="`+topology.Index()+`"}`]; known || got[`watership_server_up{server="broker"}`] != 0 {
		t.Error("the broker is away, and the metrics do not say so")
	}
	toBroker.Mend()
	i.wantReady(t)
}

func (i *installation) wantMetrics(t *testing.T, want map[string]float64) {
	t.Helper()
	until(t, "the lag to be over", func() bool { // the last events are acknowledged after they are counted
		for name, value := range i.scrape(t) {
			if strings.HasPrefix(name, "watership_index_lag_seconds") && value > 0 {
				return false
			}
		}
		return true
	})
	got := i.scrape(t)
	for name, value := range want {
		if there, known := got[name]; !known || there != value {
			t.Errorf("%s is %v, want %v (there: %t)", name, there, value, known)
		}
	}
}

// wantSound checks names, units and helps as Prometheus' own linter does.
func (i *installation) wantSound(t *testing.T) {
	t.Helper()
	_, body := i.ask(t, "/metrics")
	problems, err := promlint.New(bytes.NewReader([]byte(body))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
}

// wantDocumented compares the names with the list in the documentation.
func (i *installation) wantDocumented(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile("`(watership_[a-z_]+)`")
	var documented []string
	for _, found := range name.FindAllStringSubmatch(string(text), -1) {
		documented = append(documented, found[1])
	}
	_, body := i.ask(t, "/metrics")
	var known []string
	for _, found := range regexp.MustCompile(`(?m)^# TYPE (watership_\S+)`).FindAllStringSubmatch(body, -1) {
		known = append(known, found[1])
	}
	unseen := []string{
		"watership_hung_attempts_total", "watership_fingerprint_mismatches_total",
		"watership_index_dropping", "watership_index_dropped_messages_total",
		"watership_subscription_lag_seconds", "watership_subscription_lag_events", "watership_subscription_waiting",
		"watership_alerts_held", "watership_alerts_firing", "watership_alerts_notices_total", "watership_alerts_evaluation_failures_total",
		"watership_route_standby", "watership_subscription_unattended",
		"watership_subscription_delivered_total", "watership_subscription_parked_total",
	} // nothing of the kind happened
	slices.Sort(documented)
	for _, name := range known {
		if _, there := slices.BinarySearch(documented, name); !there {
			t.Errorf("%s is not documented", name)
		}
	}
	for _, name := range documented {
		if !slices.Contains(known, name) && !slices.Contains(unseen, name) {
			t.Errorf("%s is documented, and there is none", name)
		}
	}
}

// A store that is away from the beginning is said as well, and what waits for it.
func TestVitalsWithoutStore(t *testing.T) {
	t.Parallel()
	broker := rabbittest.Newest(t)
	i := install(t, broker, "http://127.0.0.1:1/")
	i.must(t, "setup")
	i.rewrite(t, i.store, "http://127.0.0.1:1")
	i.start(t)
	until(t, "serve to listen", func() bool {
		response, err := http.Get("http://" + i.listen + "/healthz")
		if err == nil {
			response.Body.Close()
		}
		return err == nil
	})
	i.wantAway(t, "store: ")
	if err := broker.Channel(t).Publish(i.exchange, "k", false, false, amqp.Publishing{}); err != nil {
		t.Fatal(err)
	}
	index := schemas.Topology{Prefix: i.prefix}.Index()
	until(t, "the lag to grow", func() bool {
		got := i.scrape(t)
		return got[`watership_queue_messages{queue="`+index+`"}`] == 1 && got[`watership_index_lag_seconds{queue="`+index+`"}`] > 0
	})
}
