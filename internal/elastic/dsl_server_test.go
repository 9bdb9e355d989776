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

	"github.com/watershipmq/watership/schemas/query"
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

// Documents by the name that the queries below know them by.
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

// What Elasticsearch itself makes of the compiled queries.
func TestCompiledQueriesFind(t *testing.T) {
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

// Kibana sends its time zone with what compares dates. Ours finds the same, but for
// milliseconds since 1970, which Elasticsearch would shift by the zone.
func TestDatesAreInAZone(t *testing.T) {
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

func (i dslIndex) findIn(t *testing.T, text string, zone *time.Location) string {
	t.Helper()
	return i.search(t, Compile(query.InZone(dslQuery(t, text), dslFields, time.Now().In(zone)), dslFields))
}

// What query.Resolve refuses, Elasticsearch refuses or answers wrongly. Should
// that change, so can Resolve.
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
		{`{"query_string": {"fields": ["event.duration"], "query": "1*"}}`, "Can only use prefix queries"},
		{`{"match": {"event.duration": "abc"}}`, "For input string"},
		{`{"range": {"event.duration": {"gt": "1e30"}}}`, "out of range for a long"},
		{`{"match": {"watership.ours": "yes"}}`, "Can't parse boolean value"},
		{`{"range": {"@timestamp": {"gte": "yesterday"}}}`, "failed to parse date field"},
	} {
		got := index.search(t, json.RawMessage(tt.text))
		if got != tt.want && (tt.want == "" || !strings.Contains(got, tt.want)) {
			t.Errorf("%s\n got %s\nwant %s", tt.text, got, tt.want)
		}
	}
}

// dslIndex is the address of an index of its own for one test.
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
	index.do(t, http.MethodPut, "", dslMapping)
	t.Cleanup(func() { index.do(t, http.MethodDelete, "", "") })
	for id, document := range dslDocuments {
		index.do(t, http.MethodPut, "/_doc/"+id, document)
	}
	index.do(t, http.MethodPost, "/_refresh", "")
	return index
}

func (i dslIndex) find(t *testing.T, text string) string {
	t.Helper()
	return i.search(t, Compile(dslQuery(t, text), dslFields))
}

func dslQuery(t *testing.T, text string) query.Node {
	t.Helper()
	node, err := query.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if node, err = query.Resolve(node, dslFields); err != nil {
		t.Fatal(err)
	}
	return node
}

// search is the names of what was found, in order, or the error.
func (i dslIndex) search(t *testing.T, compiled any) string {
	t.Helper()
	body, err := json.Marshal(map[string]any{"query": compiled})
	if err != nil {
		t.Fatal(err)
	}
	status, answer := i.request(t, http.MethodPost, "/_search", string(body))
	if status != http.StatusOK {
		return string(answer)
	}
	var found struct {
		Hits struct {
			Hits []struct {
				ID string `json:"_id"`
			}
		}
	}
	if err := json.Unmarshal(answer, &found); err != nil {
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
	if status, answer := i.request(t, method, path, body); status >= 300 {
		t.Fatalf("%s %s%s: %d %s", method, i, path, status, answer)
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
