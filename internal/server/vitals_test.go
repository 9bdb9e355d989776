package server_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/schemas"
)

// Metrics are read while messages flow; then the store goes away, then the
// broker, and each is said and comes back.
func TestVitals(t *testing.T) { servertest.OnEither(t, testVitals) }

func testVitals(t *testing.T, p servertest.Parts) {
	broker := p.Broker
	service := servertest.NewService(t, func(p servertest.Post, _ int) int {
		if strings.HasSuffix(p.ID, "7") {
			return http.StatusInternalServerError
		}
		return http.StatusOK
	})
	i := p.Install(t, service.URL)
	toBroker := broker.Proxy(t)
	i.Rewrite(t, fmt.Sprintf("{url: %q, management", broker.URL), fmt.Sprintf("{url: %q, management", toBroker.URL))
	storeAway, storeBack := p.Breakable(t, i)
	i.Serve(t)
	topology := schemas.Topology{Prefix: i.Prefix}
	publish := func(from, to int) {
		channel := broker.Channel(t)
		for n := from; n < to; n++ {
			err := channel.Publish(i.Exchange, "k", false, false, amqp.Publishing{MessageId: fmt.Sprint("m-", n), Body: []byte("{}")})
			if err != nil {
				t.Fatal(err)
			}
		}
	}

	publish(0, 100)
	published := `watership_index_events_total{action="published"}`
	servertest.Until(t, "all to be recorded", func() bool {
		got := i.Scrape(t)
		return got[published] == 100 && got[`watership_index_events_total{action="poisoned"}`] == 10
	})
	wantMetrics(t, i, map[string]float64{
		`watership_attempts_total{queue="` + i.Queue + `",result="handled"}`: 90,
		`watership_attempts_total{queue="` + i.Queue + `",result="retry"}`:   20,
		`watership_attempts_total{queue="` + i.Queue + `",result="poison"}`:  10,
		`watership_attempt_duration_seconds_count{queue="` + i.Queue + `"}`:  120,
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
	wantSound(t, i)
	wantDocumented(t, i)

	storeAway()
	i.WantAway(t, "store: ")
	publish(100, 110)
	servertest.Until(t, "the lag to grow", func() bool {
		got := i.Scrape(t)
		return got[`watership_index_lag_seconds{queue="`+topology.Index()+`"}`] > 0.5 && got[`watership_server_up{server="store"}`] == 0
	})
	storeBack()
	i.WantReady(t)
	servertest.Until(t, "what waited to be recorded", func() bool {
		got := i.Scrape(t)
		return got[published] == 110 && got[`watership_index_lag_seconds{queue="`+topology.Index()+`"}`] == 0
	})

	toBroker.Cut()
	i.WantAway(t, "broker: ")
	got := i.Scrape(t)
	if _, known := got[`watership_queue_messages{queue="`+topology.Index()+`"}`]; known || got[`watership_server_up{server="broker"}`] != 0 {
		t.Error("the broker is away, and the metrics do not say so")
	}
	toBroker.Mend()
	i.WantReady(t)
}

// wantMetrics waits for values in one scrape, and for the end of every lag: the last events are acknowledged
// after they are counted, and a scrape has no metrics of a server that is slow to answer.
func wantMetrics(t *testing.T, i *servertest.Installation, want map[string]float64) {
	t.Helper()
	var others []string
	rabbittest.Poll(rabbittest.Timeout, func() bool {
		got := i.Scrape(t)
		others = nil
		for name, value := range got {
			if strings.HasPrefix(name, "watership_index_lag_seconds") && value > 0 {
				others = append(others, fmt.Sprintf("%s is %v, want 0", name, value))
			}
		}
		for name, value := range want {
			if there, known := got[name]; !known || there != value {
				others = append(others, fmt.Sprintf("%s is %v, want %v (there: %t)", name, there, value, known))
			}
		}
		return len(others) == 0
	})
	for _, other := range others {
		t.Error(other)
	}
}

// wantSound checks names, units and helps as Prometheus' own linter does.
func wantSound(t *testing.T, i *servertest.Installation) {
	t.Helper()
	_, body := i.Ask(t, "/metrics")
	problems, err := promlint.New(bytes.NewReader([]byte(body))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
}

// wantDocumented compares the names with the list in the documentation.
func wantDocumented(t *testing.T, i *servertest.Installation) {
	t.Helper()
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile("`(watership_[a-z_]+)`")
	var documented []string
	for _, found := range name.FindAllStringSubmatch(string(text), -1) {
		documented = append(documented, found[1])
	}
	unseen := []string{
		"watership_hung_attempts_total", "watership_fingerprint_mismatches_total",
		"watership_index_dropping", "watership_index_dropped_messages_total",
		"watership_subscription_lag_seconds", "watership_subscription_lag_events", "watership_subscription_waiting",
		"watership_alerts_held", "watership_alerts_firing", "watership_alerts_notices_total", "watership_alerts_evaluation_failures_total",
		"watership_route_standby", "watership_subscription_unattended",
		"watership_subscription_delivered_total", "watership_subscription_parked_total", "watership_trace_spans_total",
	} // nothing of the kind happened
	slices.Sort(documented)
	var missing []string
	rabbittest.Poll(rabbittest.Timeout, func() bool { // a scrape has no metrics of a server that is slow to answer
		_, body := i.Ask(t, "/metrics")
		var known []string
		for _, found := range regexp.MustCompile(`(?m)^# TYPE (watership_\S+)`).FindAllStringSubmatch(body, -1) {
			known = append(known, found[1])
			if _, there := slices.BinarySearch(documented, found[1]); !there {
				t.Errorf("%s is not documented", found[1])
			}
		}
		missing = slices.DeleteFunc(slices.Clone(documented), func(name string) bool {
			return slices.Contains(known, name) || slices.Contains(unseen, name)
		})
		return len(missing) == 0 || t.Failed()
	})
	for _, name := range missing {
		t.Errorf("%s is documented, and there is none", name)
	}
}

// A store that is away from the beginning is said as well, and what waits for it.
func TestVitalsWithoutStore(t *testing.T) {
	t.Parallel()
	broker := rabbittest.Newest(t)
	i := servertest.Install(t, broker, "http://127.0.0.1:1/")
	i.Must(t, "setup")
	i.Rewrite(t, i.Store, "http://127.0.0.1:1")
	i.Start(t)
	servertest.Until(t, "serve to listen", func() bool {
		response, err := http.Get("http://" + i.Listen + "/healthz")
		if err == nil {
			response.Body.Close()
		}
		return err == nil
	})
	i.WantAway(t, "store: ")
	if err := broker.Channel(t).Publish(i.Exchange, "k", false, false, amqp.Publishing{}); err != nil {
		t.Fatal(err)
	}
	index := schemas.Topology{Prefix: i.Prefix}.Index()
	servertest.Until(t, "the lag to grow", func() bool {
		got := i.Scrape(t)
		return got[`watership_queue_messages{queue="`+index+`"}`] == 1 && got[`watership_index_lag_seconds{queue="`+index+`"}`] > 0
	})
}
