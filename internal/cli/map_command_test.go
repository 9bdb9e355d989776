package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/schemas"
)

// The map is printed as ways of messages, the same from a store and through the API. Rates are those of the period.
func TestServiceMap(t *testing.T) { bothWays(t, testServiceMap) }

func testServiceMap(t *testing.T, seed seeder) {
	a := seed(t)
	wantLines(t, a.must(t, "map"), "nothing found")
	const second = 1 << 30 * time.Nanosecond // about; Elasticsearch rounds others
	took, total := shortDuration(second), shortDuration(2*second)
	var events []schemas.Event
	for n := range 10 {
		events = append(events,
			a.event(3*n+1, schemas.Published, func(e *schemas.Event) { e.Envelope.Properties.AppID = "web" }),
			a.event(3*n+2, schemas.Handled, worked("orders", 0, second, 2*second)),
		)
	}
	a.keep(t, append(events, a.event(40, schemas.Poisoned, poisonedAt("orders", "no")))...)
	words := func(args ...string) string {
		return strings.Join(strings.Fields(a.must(t, append([]string{"map"}, args...)...)), " ")
	}
	minute := []string{"--from", happened.Format("2006-01-02T15:04:05Z07:00"), "--to", happened.Add(100e9).Format("2006-01-02T15:04:05Z07:00")}
	if got, want := words(minute...), "FROM TO MESSAGES RATE FAILED P95 exchange shop queue orders 11 6.6/min 1 "+total+" "+
		"service web exchange shop 10 6/min 0 queue orders unknown service 10 6/min 1 "+took; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := words(append(minute, "--limit", "1")...); !strings.HasSuffix(got, "2 ways with fewer messages left out") {
		t.Errorf("of one way: %s", got)
	}
	var found messages.ServiceMap
	if err := json.Unmarshal([]byte(a.must(t, append([]string{"map", "-o", "json"}, minute...)...)), &found); err != nil || len(found.Edges) != 3 || found.Seconds != 100 {
		t.Fatalf("%+v, %v", found, err)
	}
	for _, e := range found.Edges {
		wantLines(t, a.must(t, "search", "--count", e.Query), map[string]string{"orders": "11", "shop": "10", "": "11"}[e.To.Name])
	}
}
