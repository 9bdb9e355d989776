package elastic

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore/elastic/internal/querydsl"
	"github.com/watershipmq/watership/eventstore/kql"
)

const dslMapping = `{
	"settings": {"number_of_shards": 1, "number_of_replicas": 0},
	"mappings": {"dynamic": false, "properties": {
		"@timestamp": {"type": "date"},
		"event.action": {"type": "keyword"},
		"event.duration": {"type": "long"},
		"error.message": {"type": "text"},
		"watership.ours": {"type": "boolean"},
		"headers": {"type": "flattened"},
		"labels.tenant": {"type": "keyword"},
		"numeric_labels.total": {"type": "double"}
	}}
}`

// Documents by the names in the queries below.
var dslDocuments = map[string]string{
	"late": `{
		"@timestamp": "2026-01-31T23:30:00Z", "event": {"action": "poisoned", "duration": 9},
		"error": {"message": "Cannot connect: order-17 timed out"}, "watership": {"ours": true},
		"headers": {"tenant": "acme", "path": "a b/c*d", "n": "10", "deep": {"er": "hello world"}}, "labels": {"tenant": "acme"}}`,
	"early": `{
		"@timestamp": "2026-01-01T00:00:00Z", "event": {"action": "retry_scheduled", "duration": 10},
		"error": {"message": "could connect to nothing"}, "watership": {"ours": false},
		"headers": {"tenant": "acme-2", "void": "null"}, "numeric_labels": {"total": 10}}`,
	"other": `{
		"@timestamp": "2026-02-01T00:00:00Z", "event": {"action": "handled"},
		"headers": {"other": "x-acme", "flag": true}, "labels": {"tenant": "a*c"}}`,
}

// TestCompiledQueriesFind runs the compiled queries on Elasticsearch.
func TestCompiledQueriesFind(t *testing.T) {
	t.Parallel() // most of it is waiting
	index := newDSLIndex(t)
	for _, tt := range []struct {
		text string
		want string // the names, in order
	}{
		{``, "early late other"},
		{`*`, "early late other"},
		{`not *: *`, ""},
		{`order-17`, "late"},
		{`"timed out"`, "late"},
		{`"out timed"`, ""},
		{`conn*`, "early late"},

		{`action: poisoned`, "late"},
		{`action: (poisoned or handled)`, "late other"},
		{`action: POISONED`, ""},
		{`action: *ed`, "early late other"},
		{`action: p*d and not action: h*`, "late"},
		{`action: retry_scheduled or action: handled and duration: 1`, "early"},
		{`(action: retry_scheduled or action: handled) and duration: 1`, ""},

		{`error.message: cannot connect`, "early late"},
		{`error.message: "cannot connect"`, "late"},
		{`error.message: conn*`, "early late"},
		{`error.message: *thing`, "early"},

		{`duration: 10`, "early"},
		{`duration: "10"`, "early"},
		{`duration >= 9`, "early late"},
		{`duration > 9.5 and duration < 1e3`, "early"},
		{`duration: *`, "early late"},
		{`not duration: *`, "other"},
		{`total > 9`, "early"},
		{`ours: true`, "late"},
		{`ours: "false"`, "early"},

		{`@timestamp: "2026-01-31"`, "late"},
		{`@timestamp: 2026-01`, "early"}, // the first day: Elasticsearch adds what is missing
		{`@timestamp: 2026-01||/M`, "early late"},
		{`@timestamp > 2026-01-31`, "other"},
		{`@timestamp >= "2026-01-31T23:30:00+00:00"`, "late other"},
		{`@timestamp < "2026-02-01||-1M/d"`, ""},
		{`@timestamp <= 1767225600000`, "early"},
		{`@timestamp > now+1000y`, ""},

		{`labels.tenant: acme`, "late"},
		{`labels.tenant: a*`, "late other"},
		{`labels.tenant: a\*c`, "other"},
		{`labels.tenant: a\**`, "other"},
		{`headers: acme`, "late"},
		{`headers.*: acme`, "late"},
		{`headers: *acme`, "late other"},
		{`headers: a*2`, "early"},
		{`headers.tenant: acme`, "late"},
		{`headers.tenant: "acme"`, "late"},
		{`headers.tenant: acme*`, "early late"},
		{`headers.other: acme*`, ""},
		{`headers.path: a b/c*`, "late"},
		{`headers.path: a b/c\*d`, "late"},
		{`headers.deep.er: hello world`, "late"},
		{`headers.deep.er: hello`, ""},
		{`headers.deep.er: hello w*`, "late"},
		{`headers.flag: true`, "other"},
		{`headers.n: 10`, "late"},
		{`headers.void: null`, "early"},
		{`headers.tenant: *`, "early late"},

		{`*: acme`, "late"},
		{`*: 10`, "early late"},
		{`event.*: handled`, "other"},
		{`*labels.*: *`, "early late other"},
	} {
		t.Run(tt.text, func(t *testing.T) {
			if got := index.find(t, tt.text); got != tt.want {
				t.Errorf("found %q, want %q", got, tt.want)
			}
		})
	}
}

// TestDatesAreInAZone: Kibana sends its time zone with comparisons of dates. The store
// finds the same without it, except for milliseconds since 1970, which Elasticsearch
// would shift by the zone.
func TestDatesAreInAZone(t *testing.T) {
	t.Parallel() // most of it is waiting
	index := newDSLIndex(t)
	zones := []string{"Europe/Vienna", "America/New_York", "Asia/Kolkata", "Pacific/Kiritimati", "UTC"}
	dates := []string{
		"2026-01-31", "2026-02-01", "2026", "2026-02-01T00", "2026-02-01T00:30", "2026-01-31T23:30:00", "2026-01-31T18:30",
		"2026-02-01||/d", "2026-01-15||+2w/w", "2026-01-31T23:30:00Z||/h", "2026-01-31T23:30:00Z||/d", "2026-01-01T00:00:00+00:00",
		"now/d", "now-1y/y", "2026-03-01T00:30Z||-1M", "2026-03-29||-1d", "2026-02-08T00:00Z||-1w",
	}
	for _, zone := range zones {
		location, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		for _, date := range dates {
			for op, name := range map[string]string{"<": "lt", "<=": "lte", ">": "gt", ">=": "gte"} {
				text := fmt.Sprintf("@timestamp %s %q", op, date)
				want := index.search(t, map[string]any{"range": map[string]any{"@timestamp": map[string]any{name: date, "time_zone": zone}}})
				if got := index.findIn(t, text, location); got != want {
					t.Errorf("%s in %s: found %q, want %q", text, zone, got, want)
				}
			}
			want := index.search(t, map[string]any{"range": map[string]any{"@timestamp": map[string]any{
				"gte": date, "lte": date, "time_zone": zone,
			}}})
			if got := index.findIn(t, fmt.Sprintf("@timestamp: %q", date), location); got != want {
				t.Errorf("@timestamp: %s in %s: found %q, want %q", date, zone, got, want)
			}
		}
	}
}

// TestDatesAtChangesOfClocks: at the change to summer time or back, a local time exists
// twice or never, and a day can begin an hour late. Elasticsearch uses Java's rules.
func TestDatesAtChangesOfClocks(t *testing.T) {
	t.Parallel() // most of it is waiting
	index := newDSLIndex(t)
	for id, at := range map[string]string{"first": "1800-01-01", "last": "2200-01-01"} { // else it finds out that there are none, and says so
		index.do(t, http.MethodPut, "/_doc/"+id+"?refresh=true", fmt.Sprintf(`{"@timestamp": %q}`, at))
	}
	now := time.Now()
	for zone, dates := range map[string][]string{
		"Europe/Berlin":       {"2026-10-25T01:59", "2026-10-25T02", "2026-10-25T02:30", "2026-10-25T03", "2026-03-29T02:30", "2026-03-29T02", "2026-10-24T02:30||+1d", "2026-10-25T01:30||+1h/h", "2026-10-25T01:30||+2h/h", "2026-09-25T02:30||+1M", "2026-10-26T02:30||-1d"},
		"Europe/London":       {"2026-10-25T01:30", "2026-10-25T01", "2026-03-29T01:30", "2026-10-25T00:30||+1h", "2026-10-24T01:30||+1d", "2026-10-26T01:30||-1d"},
		"Atlantic/Azores":     {"2026-10-25T00:30", "2026-10-25", "2026-03-29", "2026-03-29T00:30", "2026-10-25T12||/d", "2026-03-29T12||/d"},
		"America/Havana":      {"2026-11-01", "2026-11-01T00:30", "2026-03-08", "2026-03-08T00:30", "2026-03-08T12||/d", "2026-11-01T12||/d", "2026-11-20||/M", "2026-11-01T12||-12h/d", "2026-10-31||+1d"},
		"America/Santiago":    {"2026-04-04", "2026-04-05", "2026-04-04T23:30", "2026-09-06", "2026-09-05||+1d", "2026-09-06T12||/d", "2026-09-07||-1d", "2026-09-06T00:30", "2026-04-05||-30m", "2026-04-05||-30m/d", "2026-09-10||-1w/w"},
		"Africa/Cairo":        {"2026-04-24", "2026-04-23", "2026-10-29", "2026-10-30", "2026-10-29T23:30", "2026-04-24T00:15", "2026-04-24T18||/d", "2026-10-29T18||/d"},
		"Asia/Beirut":         {"2026-03-29", "2026-03-28", "2026-10-24", "2026-10-25", "2026-10-24T23:30", "2026-03-29T00:59:59", "2026-03-29T18||/d", "2026-10-24T23||/d", "2026-10-26||/w"},
		"Australia/Lord_Howe": {"2026-10-04T02:15", "2026-10-04T02:45||/h", "2026-04-05T01:45", "2026-04-05T02:15||-30m/h", "2026-04-05T02"},
		"Pacific/Apia":        {"2011-12-30", "2011-12-30T12", "2011-12-31||-1d", "2011-12-29||+1d/d"},
		"America/New_York":    {"1883-11-18T12:01", "1883-11-18", "2040-11-04T01:30", "2040-03-11T02:30"},
	} {
		location, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		for _, date := range dates {
			for op, end := range map[string]kql.End{"gte": kql.First, "gt": kql.Last} {
				at, err := kql.Instant(date, now.In(location), end)
				if err != nil {
					t.Fatal(err)
				}
				if end == kql.Last {
					at = at.Add(time.Millisecond)
				}
				if want := index.begin(t, op, date, zone); at.UnixMilli() != want {
					t.Errorf("%s %s in %s: from %s on, want %s", op, date, zone, at, time.UnixMilli(want).UTC())
				}
			}
		}
	}
}

// begin is the first millisecond that a query of Elasticsearch includes.
func (i dslIndex) begin(t *testing.T, op, date, zone string) (millis int64) {
	t.Helper()
	body := fmt.Sprintf(`{"query": {"range": {"@timestamp": {%q: %q, "time_zone": %q}}}}`, op, date, zone)
	_, response := i.request(t, http.MethodPost, "/_validate/query?explain=true", body)
	_, bounds, found := strings.Cut(string(response), "@timestamp:[")
	if _, err := fmt.Sscan(bounds, &millis); !found || err != nil {
		t.Fatalf("%s: %s", body, response)
	}
	return millis
}

func (i dslIndex) findIn(t *testing.T, text string, zone *time.Location) string {
	t.Helper()
	return i.search(t, querydsl.Compile(kql.InZone(dslQuery(t, text), dslFields, time.Now().In(zone)), dslFields))
}

// TestRefusedQueriesWouldFail: Elasticsearch refuses the queries that kql.Resolve
// refuses, or finds the wrong documents. If that changes, Resolve can change too.
func TestRefusedQueriesWouldFail(t *testing.T) {
	index := newDSLIndex(t)
	for _, tt := range []struct {
		text string // as Kibana sends it
		want string
	}{
		{`{"range": {"headers.n": {"gt": "9"}}}`, "both an upper and a lower bound"},
		{`{"wildcard": {"headers.tenant": {"value": "*me"}}}`, "not currently supported on keyed"},
		{`{"query_string": {"fields": ["headers.tenant"], "query": "*-acme"}}`, "other"}, // it has no such header
		{`{"query_string": {"fields": ["headers.tenant"], "query": "a*e"}}`, ""},         // "late" has it
		{`{"query_string": {"fields": ["headers.tenant"], "query": "o*me"}}`, "other"},   // by headers.other
		{`{"query_string": {"fields": ["event.duration"], "query": "1*"}}`, "Can only use prefix queries"},
		{`{"match": {"event.duration": "abc"}}`, "For input string"},
		{`{"range": {"event.duration": {"gt": "1e30"}}}`, "out of range for a long"},
		{`{"range": {"event.duration": {"gt": "-9223372036854775809"}}}`, "out of range for a long"},
		{`{"range": {"event.duration": {"lt": "9223372036854775807.9"}}}`, "early late"}, // which is why it is not refused
		{`{"range": {"event.action": {"gt": null}}}`, "early late other"},                // no bound
		{`{"match": {"watership.ours": "yes"}}`, "Can't parse boolean value"},
		{`{"range": {"@timestamp": {"gte": "yesterday"}}}`, "failed to parse date field"},
	} {
		got := index.search(t, json.RawMessage(tt.text))
		if got != tt.want && (tt.want == "" || !strings.Contains(got, tt.want)) {
			t.Errorf("%s\n got %s\nwant %s", tt.text, got, tt.want)
		}
	}
}

// dslIndex is the URL of a new index for one test.
type dslIndex string

func newDSLIndex(t *testing.T) dslIndex {
	t.Helper()
	server := os.Getenv("WATERSHIP_TEST_STORE_URL")
	if server == "" {
		if os.Getenv("WATERSHIP_TEST_REQUIRED") == "1" {
			t.Fatal("WATERSHIP_TEST_STORE_URL is not set, and WATERSHIP_TEST_REQUIRED=1 wants it")
		}
		t.Skip("needs Elasticsearch: eval \"$(scripts/services env)\"")
	}
	index := dslIndex(fmt.Sprintf("%s/dsl-test-%d", server, time.Now().UnixNano()))
	dialect, err := open(t, Config{}).dialect(t.Context(), "choosing a mapping")
	if err != nil {
		t.Fatal(err)
	}
	mapping, err := dialect.template([]byte(dslMapping))
	if err != nil {
		t.Fatal(err)
	}
	index.do(t, http.MethodPut, "", string(mapping))
	t.Cleanup(func() { index.do(t, http.MethodDelete, "", "") })
	for id, document := range dslDocuments {
		index.do(t, http.MethodPut, "/_doc/"+id, document)
	}
	index.do(t, http.MethodPost, "/_refresh", "")
	return index
}

func (i dslIndex) find(t *testing.T, text string) string {
	t.Helper()
	return i.search(t, querydsl.Compile(dslQuery(t, text), dslFields))
}

func dslQuery(t *testing.T, text string) kql.Node {
	t.Helper()
	node, err := kql.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if node, err = kql.Resolve(node, dslFields); err != nil {
		t.Fatal(err)
	}
	return node
}

// search returns the names of the found documents, in order, or the error.
func (i dslIndex) search(t *testing.T, compiled any) string {
	t.Helper()
	body, err := json.Marshal(map[string]any{"query": compiled})
	if err != nil {
		t.Fatal(err)
	}
	status, response := i.request(t, http.MethodPost, "/_search", string(body))
	if status != http.StatusOK {
		return string(response)
	}
	var found struct {
		Hits struct {
			Hits []struct {
				ID string `json:"_id"`
			}
		}
	}
	if err := json.Unmarshal(response, &found); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, hit := range found.Hits.Hits {
		names = append(names, hit.ID)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func (i dslIndex) do(t *testing.T, method, path, body string) {
	t.Helper()
	if status, response := i.request(t, method, path, body); status >= 300 {
		t.Fatalf("%s %s%s: %d %s", method, i, path, status, response)
	}
}

func (i dslIndex) request(t *testing.T, method, path, body string) (status int, answer []byte) {
	t.Helper()
	request, err := http.NewRequest(method, string(i)+path, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if answer, err = io.ReadAll(response.Body); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, answer
}
