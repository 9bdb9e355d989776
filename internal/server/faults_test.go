package server_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/time/rate"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/elastic"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/schemas"
)

const (
	faultMessages = 5_000
	faultPace     = 100 // messages a second, so that all faults fall among them
	faultRounds   = 2
)

// TestNothingLost publishes while serve is killed, RabbitMQ is restarted and
// Elasticsearch is stopped and started, twice each. Every message is
// handled or given up, and every one is in the store. It needs servers that
// nothing else uses meanwhile.
func TestNothingLost(t *testing.T) {
	if os.Getenv("WATERSHIP_TEST_FAULTS") == "" {
		t.Skip("WATERSHIP_TEST_FAULTS is not set: this test restarts the servers, which others may be using")
	}
	servers := startedServers(t)
	var sites []*site
	for url, name := range servers {
		if strings.HasPrefix(name, "rabbitmq") {
			sites = append(sites, newSite(t, url, name))
		}
	}
	if len(sites) == 0 {
		t.Fatal("no broker that a test may restart")
	}
	var work sync.WaitGroup
	for _, s := range sites {
		work.Go(func() { s.publish(t) })
	}
	for round := range faultRounds {
		var restarts sync.WaitGroup
		for _, s := range sites {
			restarts.Go(func() {
				s.crash(t)
				servers.do(t, "restart", s.name)
				s.crash(t)
			})
		}
		restarts.Wait()
		servers.do(t, "stop", "elasticsearch")
		sites[round%len(sites)].crash(t)
		servers.do(t, "start", "elasticsearch")
	}
	work.Wait()
	for _, s := range sites {
		s.check(t)
	}
}

// site is one broker with its installation, for the length of the test.
type site struct {
	*servertest.Installation
	name    string
	service *servertest.Service
	process *servertest.Process
	crashes int
}

func newSite(t *testing.T, url, name string) *site {
	t.Helper()
	broker := rabbittest.Broker{Address: rabbittest.Address{URL: url}, Version: name, ManagementURL: managementOf(t, url)}
	s := &site{name: name, service: servertest.NewService(t, func(p servertest.Post, before int) int {
		if strings.HasSuffix(p.ID, "00") || strings.HasSuffix(p.ID, "5") && before == 0 {
			return http.StatusInternalServerError
		}
		return http.StatusOK
	})}
	s.Installation = servertest.Install(t, broker, s.service.URL)
	s.process = s.Serve(t)
	return s
}

func managementOf(t *testing.T, url string) string {
	t.Helper()
	urls := strings.Fields(os.Getenv("WATERSHIP_TEST_AMQP_URLS"))
	for i, management := range strings.Fields(os.Getenv("WATERSHIP_TEST_MANAGEMENT_URLS")) {
		if urls[i] == url {
			return management
		}
	}
	t.Fatalf("no management URL of %s", url)
	return ""
}

func faultID(n int) string { return fmt.Sprintf("m-%05d", n) }

// publish sends every message until the broker has confirmed it.
func (s *site) publish(t *testing.T) {
	publisher := s.Publisher(t)
	pace := rate.NewLimiter(faultPace, 1)
	var unconfirmed sync.WaitGroup
	for n := range faultMessages {
		if err := pace.Wait(t.Context()); err != nil {
			t.Error(err)
			return
		}
		e := schemas.Envelope{
			Properties: schemas.Properties{MessageID: faultID(n), DeliveryMode: amqp.Persistent},
			Headers:    amqp.Table{"n": int64(n)}, Body: fmt.Appendf(nil, `{"n": %d}`, n),
		}
		unconfirmed.Go(func() {
			err := publisher.Publish(t.Context(), rabbit.Message{Exchange: s.Exchange, RoutingKey: "k", Publishing: e.Publishing()})
			if err != nil {
				t.Errorf("publishing %s: %v", faultID(n), err)
			}
		})
	}
	unconfirmed.Wait()
}

// crash kills serve and starts it again.
func (s *site) crash(t *testing.T) {
	t.Helper()
	s.process.Kill(t)
	s.process = s.Start(t)
	s.crashes++
}

// check waits until every message has come to an end, and counts.
func (s *site) check(t *testing.T) {
	t.Helper()
	store, err := elastic.Open(elastic.Config{URLs: []string{servertest.StoreURL(t)}, Stream: s.Stream})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	var seen eventCounts
	deadline := time.Now().Add(5 * time.Minute)
	for {
		seen = countEvents(t, store)
		ended := seen.ended()
		if len(seen.events[schemas.Published]) == faultMessages && ended == faultMessages {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: of %d messages, %d are in the store and %d are handled or poisoned",
				s.name, faultMessages, len(seen.events[schemas.Published]), ended)
		}
		time.Sleep(time.Second)
	}
	posts := s.service.Got()
	twice := 0
	for n := range faultMessages {
		if len(posts[faultID(n)]) == 0 {
			t.Errorf("%s: the service never got %s", s.name, faultID(n))
		}
		if extra := len(posts[faultID(n)]) - 1; !strings.HasSuffix(faultID(n), "5") && !strings.HasSuffix(faultID(n), "00") {
			twice += extra
		}
	}
	t.Logf("%s: %d messages, %d crashes of serve: none lost; duplicates: %d posts, %d handled, %d poisoned, %d published events",
		s.name, faultMessages, s.crashes, twice, seen.more(schemas.Handled), seen.more(schemas.Poisoned), seen.more(schemas.Published))
}

// eventCounts counts events by action and message id.
type eventCounts struct {
	events map[schemas.Action]map[string]int
}

func countEvents(t *testing.T, store *elastic.Store) eventCounts {
	t.Helper()
	seen := eventCounts{map[schemas.Action]map[string]int{schemas.Published: {}, schemas.Handled: {}, schemas.Poisoned: {}}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := store.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	for event, err := range store.Events(ctx, eventstore.Selection{Query: kql.All{}, Order: eventstore.BySequence, WithoutBody: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if ids := seen.events[event.Action]; ids != nil {
			ids[event.Envelope.Properties.MessageID]++
		}
	}
	return seen
}

// ended counts the messages that were handled or given up.
func (s eventCounts) ended() int {
	ended := len(s.events[schemas.Handled])
	for id := range s.events[schemas.Poisoned] {
		if s.events[schemas.Handled][id] == 0 {
			ended++
		}
	}
	return ended
}

// more counts the events beyond the first of each message.
func (s eventCounts) more(action schemas.Action) int {
	extra := 0
	for _, count := range s.events[action] {
		extra += count - 1
	}
	return extra
}

// startedBy are the servers that scripts/services started, name by URL.
type startedBy map[string]string

func startedServers(t *testing.T) startedBy {
	t.Helper()
	started := startedBy{}
	for _, pair := range strings.Fields(os.Getenv("WATERSHIP_TEST_SERVICES_STARTED")) {
		name, url, _ := strings.Cut(pair, "=")
		started[url] = name
	}
	if os.Getenv("WATERSHIP_TEST_SERVICES") == "" || len(started) == 0 {
		servertest.Missing(t, "the servers were not started by scripts/services, so they cannot be restarted")
	}
	return started
}

func (s startedBy) do(t *testing.T, verb, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, os.Getenv("WATERSHIP_TEST_SERVICES"), verb, name).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", verb, name, err, out)
	}
}
