package cli

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/schemas"
)

func poisonedAt(queue, message string) func(*schemas.Event) {
	return func(e *schemas.Event) {
		e.Queue, e.Attempt = queue, 3
		e.Failure = schemas.Failure{Message: message, Type: "http.Status", Class: "server"}
	}
}

// aFew are three events of which the last failed.
func aFew(t *testing.T, seed seeder) seeded {
	t.Helper()
	a := seed(t, "WATERSHIP_INDEX_NUMERIC_LABELS=n")
	a.keep(t,
		a.event(1, schemas.Published),
		a.event(2, schemas.Handled, func(e *schemas.Event) { e.Queue, e.Attempt = "orders", 1 }),
		a.event(3, schemas.Poisoned, poisonedAt("orders", "no such table: violins\nat line 3"), func(e *schemas.Event) {
			e.Envelope.Headers["a.b"] = amqp.Table{"c": "deep, \"quoted\""}
		}))
	return a
}

func TestSearchForms(t *testing.T) { everyWay(t, testSearchForms) }

func testSearchForms(t *testing.T, seed seeder) {
	a := aFew(t, seed)
	for _, test := range []struct{ args, want string }{
		{"action: poisoned", `
			TIME                     ACTION    EXCHANGE  ROUTING KEY    QUEUE   ATTEMPT  MESSAGE  ERROR
			2026-05-04 03:00:03.000  poisoned  shop      order.created  orders  3        m-3      no such table: violins at line 3`},
		{"action: published|--fields|message.id,headers.tenant,n", `
			messaging.message.id  headers.tenant  numeric_labels.n
			m-1 acme 1`},
		{"|--fields|message.id,queue|-o|csv", "messaging.message.id,watership.queue\nm-3,orders\nm-2,orders\nm-1,"},
		{"|--fields|message.id,event.sequence|-o|ndjson|--limit|1", `{"messaging.message.id":"m-3","event.sequence":3}`},
		{"|--fields|message.id,queue|-o|json", "[\n" + `{"messaging.message.id":"m-3","watership.queue":"orders"},
			{"messaging.message.id":"m-2","watership.queue":"orders"},
			{"messaging.message.id":"m-1","watership.queue":null}` + "\n]"},
		{"message.id: m-3|--fields|headers.a.b.c|-o|csv", "headers.a.b.c\n\"deep, \"\"quoted\"\"\""},
		{"message.id: m-3|--fields|body.json.order,body.text|-o|csv", "body.json.order,body.text\n3,\"{\"\"order\"\":3}\""},
		{"action: nothing", "nothing found"},
		{"action: nothing|-o|json", "[]"},
		{"action: nothing|--by|queue|-o|json", `{"values":[],"others":0,"without":0}`},
		{"action: (handled or poisoned)|--count", "2"},
		{"|--count|-o|json", `{"count":3}`},
		{"|--from|2026-05-04T03:00:02Z|--to|2026-05-04T03:00:03Z|--fields|message.id|-o|csv", "messaging.message.id\nm-2"},
		{"|--since|1h|--count", "0"},
		{"|--since|1h30m|--count", "0"},
	} {
		got := a.must(t, append([]string{"search"}, strings.Split(test.args, "|")...)...)
		wantLines(t, got, test.want)
	}
}

// Whole documents come out as they went in.
func TestSearchGivesWholeDocuments(t *testing.T) { bothWays(t, testSearchGivesWholeDocuments) }

func testSearchGivesWholeDocuments(t *testing.T, seed seeder) {
	a := aFew(t, seed)
	want := a.event(1, schemas.Published)
	got, err := schemas.ParseDocument([]byte(a.must(t, "search", "action: published", "-o", "ndjson")))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.Envelope, got.Envelope); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var list []json.RawMessage
	if err := json.Unmarshal([]byte(a.must(t, "search", "-o", "json")), &list); err != nil || len(list) != 3 {
		t.Errorf("%d documents, %v", len(list), err)
	}
	lines, err := csv.NewReader(strings.NewReader(a.must(t, "search", "-o", "csv"))).ReadAll()
	if err != nil || len(lines) != 4 || lines[1][7] != "no such table: violins\nat line 3" {
		t.Errorf("%q, %v", lines, err)
	}
}

func TestSearchBy(t *testing.T) { everyWay(t, testSearchBy) }

func testSearchBy(t *testing.T, seed seeder) {
	a := seed(t)
	for n := range 12 {
		queue := "orders"
		if n%4 == 0 {
			queue = "mails"
		}
		a.keep(t, a.event(n+1, schemas.Poisoned, poisonedAt(queue, fmt.Sprint("order ", n, " is lost"))))
	}
	a.keep(t, a.event(20, schemas.Published))
	bar := func(n int) string { return strings.Repeat("▇", n) }
	wantLines(t, a.must(t, "search", "--by", "queue"), "watership.queue COUNT\norders 9 "+bar(40)+"\nmails 3 "+bar(13)+"\n(no value) 1")
	wantLines(t, a.must(t, "search", "--by", "queue", "--limit", "1"), "watership.queue COUNT\norders 9 "+bar(40)+"\n(other values) 3\n(no value) 1")
	wantLines(t, a.must(t, "search", "message.id: nobody", "--fields", "message.id,queue", "-o", "csv"), "messaging.message.id,watership.queue")
	wantLines(t, a.must(t, "search", "action: poisoned", "--by", "error_group", "-o", "csv"), "watership.error_group,count\norder # is lost,12")
	wantLines(t, a.must(t, "search", "--by", "headers.tenant", "-o", "ndjson"), `{"value":"acme","count":13}`)
	wantLines(t, a.must(t, "search", "--by", "queue", "-o", "json"), `{"values":[{"value":"orders","count":9},{"value":"mails","count":3}],"others":0,"without":1}`)
	if lines := strings.Count(a.must(t, "search", "--by", "@timestamp"), "\n"); lines != 21 {
		t.Errorf("a second each makes %d lines, want the title and 20", lines)
	}
}

// Memory does not grow with the number of results, nor does the first page wait
// for the last. Nothing else may use memory meanwhile.
func TestSearchStreams(t *testing.T) {
	a := newSeededFile(t)
	const many = 30_000
	events := make([]schemas.Event, many)
	for n := range events {
		events[n] = a.event(n+1, schemas.Published, func(e *schemas.Event) { e.Fingerprint = "v1:same" })
	}
	a.keep(t, events...)
	events = nil
	for _, form := range []string{"csv", "table", "ndjson"} {
		count := &counter{}
		runtime.GC()
		var before runtime.MemStats
		runtime.ReadMemStats(&before)
		count.sample = func() {
			var now runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&now)
			if grown := int64(now.HeapAlloc) - int64(before.HeapAlloc); grown > 32<<20 {
				t.Errorf("%s: after %d lines the heap has grown by %d MiB", form, count.lines, grown>>20)
			}
		}
		code := Run(t.Context(), terminal.Streams{In: strings.NewReader(""), Out: count, Err: count}, []string{"search", "--limit", "0", "-o", form}, a.environ)
		if code != exitOK || count.lines < many || count.writes < 20 {
			t.Errorf("%s: exit code %d, %d lines in %d writes", form, code, count.lines, count.writes)
		}
	}
}

// counter counts lines, and calls sample now and then.
type counter struct {
	lines, writes int
	sample        func()
}

func (c *counter) Write(p []byte) (int, error) {
	before := c.lines / 10_000
	c.lines += strings.Count(string(p), "\n")
	if c.writes++; c.lines/10_000 > before {
		c.sample()
	}
	return len(p), nil
}

// Elasticsearch's own query language, alone and beside a query.
func TestSearchDSL(t *testing.T) {
	a := aFew(t, newSeeded)
	term := servertest.WriteFile(t, "term.json", `{"terms": {"event.action": ["poisoned", "handled"]}}`)
	body := servertest.WriteFile(t, "body.json", `{"size": 3, "query": {"range": {"event.sequence": {"gte": 9007199254740993}}}}`)
	for _, test := range []struct{ args, want string }{
		{"--dsl|" + term, "2"}, {"not queue: orders|--dsl|" + term, "0"}, {"action: poisoned|--dsl|" + term, "1"}, {"--dsl|" + body, "0"},
	} {
		got := a.must(t, append([]string{"search", "--count"}, strings.Split(test.args, "|")...)...)
		wantLines(t, got, test.want)
	}
	got := call(t.Context(), strings.NewReader(`{"match_all": {}}`), a.environ, "search", "--count", "--dsl", "-")
	wantLines(t, got.Out+got.Err, "3")
}

// In the usual terminal of 80 columns what matters most is shown, less in one of
// 50, and no line is longer; wide characters take two columns.
func TestTablesInANarrowTerminal(t *testing.T) {
	for name, test := range map[string]struct {
		columns []terminal.Column
		row     []string
		shown   string
		at50    string
	}{
		"search": {tableColumns(usualFields()), []string{
			"2026-05-04 03:00:03.000", "retry_scheduled", "a-long-exchange", "order.created", "注文注文注文注文", "12", "order-0123456789", "注文は失敗しました",
		}, "TIME (ZONE) ACTION ROUTING… QUEUE MESSAGE ERROR", "TIME (ZONE) ACTION MESSAGE"},
		"failed": {failedColumns(nil), []string{
			"12345", "k3f7q2xa", "orders-of-europe", "default", "*webhook.StatusError", "no such table", "2026-05-04 03:00:03", "2026-05-04 03:00:03", "order-0123456789",
		}, "COUNT GROUP QUEUE TYPE ERROR LAST (ZONE) EXAMPLE", "COUNT GROUP QUEUE ERROR EXAMPLE"},
		"jobs": {jobColumns(), []string{
			"01M7Z3ATW9WRXS3FNYKEP3SJ8P", "2026-05-04 03:00:03.000", "interrupted", "100000", "10000", "1000000", "root@somewhere", "the queue that failed", "event.action: poisoned",
		}, "JOB STATE SENT FAILED TOTAL QUERY", "JOB STATE SENT"},
		"by": {barColumns("error_group"), []string{
			strings.Repeat("注文", 60), "123456", strings.Repeat("▇", longestBar),
		}, "error_group COUNT", "error_group COUNT"},
	} {
		for width, shown := range map[int]string{80: test.shown, 50: test.at50} {
			var out strings.Builder
			table := terminal.NewTable(&out, terminal.Screen{Width: width}, slices.Clone(test.columns)...)
			if err := errors.Join(table.Row(slices.Clone(test.row)...), table.Flush()); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(out.String()) {
				if wide := kql.Width(strings.TrimRight(line, "\n")); wide > width {
					t.Errorf("%s: a line of %d columns in %d: %s", name, wide, width, line)
				}
			}
			if title, _, _ := strings.Cut(out.String(), "\n"); columnsOf(title) != strings.ReplaceAll(shown, "ZONE", terminal.Zone()) {
				t.Errorf("%s shows %s in %d columns, want %s", name, columnsOf(title), width, shown)
			}
		}
	}
}

// A pattern of names finds the labels that the configuration has.
func TestSearchLabelsByPattern(t *testing.T) { inEitherStore(t, testSearchLabelsByPattern) }

func testSearchLabelsByPattern(t *testing.T, seed seeder) {
	a := seed(t, "WATERSHIP_INDEX_LABELS=tenant", "WATERSHIP_INDEX_NUMERIC_LABELS=n")
	plain := seed(t)
	plain.keep(t, plain.event(1, schemas.Published), plain.event(2, schemas.Handled))
	a.must(t, "import", servertest.WriteFile(t, "events.ndjson", plain.must(t, "export", "*"))) // with labels
	if err := a.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"labels.*: acme": "2", "labels.ten*: ac*": "2", "labels.*: nobody": "0", "numeric_labels.*: 2": "1", "numeric_labels.* > 1": "1",
		"labels.*: *": "2", "not numeric_labels.*: *": "0", "*labels.*: 1": "1",
	} {
		if got := strings.TrimSpace(a.must(t, "search", text, "--count")); got != want {
			t.Errorf("%s finds %s, want %s", text, got, want)
		}
	}
}

// What is shown can be searched for as it is shown.
func TestTimesAreInTheZoneOfTheMachine(t *testing.T) {
	bothWays(t, testTimesAreInTheZoneOfTheMachine)
}

func testTimesAreInTheZoneOfTheMachine(t *testing.T, seed seeder) {
	a := aFew(t, seed)
	path, err := servertest.Binary()
	if err != nil {
		t.Fatal(err)
	}
	search := func(args ...string) string {
		cmd := exec.Command(path, append([]string{"search"}, args...)...)
		cmd.Env = append(append(os.Environ(), a.environ...), "TZ=Pacific/Kiritimati") // 14 hours ahead
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("search %q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	const shown = "2026-05-04 17:00:02.000"
	if got := search("action: handled"); !strings.Contains(got, "\n"+shown+"  handled") {
		t.Errorf("got\n%s\nwant %s", got, shown)
	}
	if got := search("action: handled", "--fields", "@timestamp"); !strings.Contains(got, "\n"+shown+"\n") {
		t.Errorf("as a field: got\n%s\nwant %s", got, shown)
	}
	if got := search("--by", "@timestamp"); !strings.Contains(got, "\n2026-05-04 17:00:") {
		t.Errorf("as a histogram: got\n%s\nwant it from %s on", got, shown)
	}
	const typed = "2026-05-04T17:00:02.000"
	for _, args := range [][]string{
		{`@timestamp >= "` + typed + `"`, "--count"},
		{"--from", shown, "--count"},
		{"--from", "2026-05-04T17", "--to", "2026-05-04T17:00:03", "--count"},
	} {
		if got := strings.TrimSpace(search(args...)); got != "2" {
			t.Errorf("search %q: %s, want 2", args, got)
		}
	}
}
