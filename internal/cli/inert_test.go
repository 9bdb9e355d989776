package cli

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/replayer/edit"
	"github.com/watershipmq/watership/schemas"
)

// hostile has the characters that set a terminal's title, clear it, reverse the text and
// end a line.
const hostile = "=evil\x1b]0;x\a\x1b[2J\u009b31m\x7f\r\n\u202e\u2066\u2028\u200b\U000e0041"

func hostileEvent(e *schemas.Event) {
	e.Source, e.VHost, e.Queue, e.Message, e.Parent, e.Replay = hostile, hostile, hostile, hostile, hostile, hostile
	e.Audit.User, e.Audit.Method, e.Audit.Address, e.Audit.Operation, e.Audit.Object, e.Audit.Reason = hostile, hostile, hostile, hostile, hostile, hostile
	e.Failure = schemas.Failure{Message: hostile, Type: hostile, Class: hostile, Stack: hostile}
	e.Envelope.Exchange, e.Envelope.RoutingKey = hostile, hostile
	e.Envelope.Headers = amqp.Table{hostile: hostile, "table": amqp.Table{hostile: []any{hostile}}, "tenant": hostile}
	p := &e.Envelope.Properties
	for _, property := range []*string{
		&p.MessageID, &p.ContentType, &p.ContentEncoding, &p.CorrelationID, &p.ReplyTo, &p.Expiration, &p.Type, &p.UserID, &p.AppID,
	} {
		*property = hostile
	}
	e.Envelope.Body = []byte(`{"text":"` + strings.Trim(hostile, "\x1b") + `"}`)
}

// Whatever a publisher, a job or a file says, nothing that a command prints could
// steer a terminal.
func TestNothingSteersATerminal(t *testing.T) { bothWays(t, testNothingSteersATerminal) }

func testNothingSteersATerminal(t *testing.T, seed seeder) {
	broker := rabbittest.Embedded(t)
	a := seed(t, "WATERSHIP_INDEX_LABELS=tenant", "WATERSHIP_AMQP_URL="+broker.URL, "WATERSHIP_AMQP_MANAGEMENT_URL="+broker.ManagementURL)
	for n, action := range []schemas.Action{
		schemas.Published, schemas.Handled, schemas.RetryScheduled, schemas.Poisoned, schemas.Replayed, schemas.Discarded, schemas.Dropped, schemas.Audited,
	} {
		a.keep(t, a.event(n+1, action, hostileEvent, func(e *schemas.Event) { e.EventID += hostile; e.ReplayOf = "x" + hostile }))
	}
	a.keep(t, a.event(20, schemas.Poisoned, hostileEvent, quarantined, func(e *schemas.Event) { e.EventID += hostile }))
	a.keep(t, a.event(21, hostile, hostileEvent, quarantined, func(e *schemas.Event) { e.EventID += hostile; e.Envelope.Properties.MessageID = "odd" }))
	a.keep(t, a.event(22, hostile, hostileEvent, func(e *schemas.Event) {
		e.EventID += hostile
		e.Envelope.Properties.MessageID = "odd"
		e.ReplayOf = a.source + ":21" + hostile
	}))
	a.keepJob(t)
	file := servertest.WriteFile(t, "events.ndjson", string(schemas.DocumentFormat{}.Append(nil, a.event(30, schemas.Published, hostileEvent)))+"\n"+`{"`+hostile+`": 1}`)
	ids := servertest.WriteFile(t, "ids", strings.ReplaceAll(hostile, "\n", " ")+"\n")
	lines := []string{
		"search", "search|-o|json", "search|-o|ndjson", "search|--by|message.id", "search|--by|message.id|-o|json", "search|--by|message.id|-o|ndjson",
		"search|--by|labels.tenant", "search|--by|headers.tenant", "search|--by|error_group", "search|--by|@timestamp",
		"search|--fields|message.id,queue,headers.tenant,headers.table,error.message,body.text,body.json,watership.source,watership.replay.of,event.id",
		"search|--fields|message.id,headers.tenant,headers|-o|json", "search|--fields|headers.tenant|-o|ndjson",
		"failed", "failed|-o|json", "failed|-o|ndjson", "show|" + hostile, "show|" + a.event(4, schemas.Poisoned).EventID + hostile, "show|none" + hostile,
		"jobs|list", "jobs|list|-o|json", "jobs|list|-o|ndjson", "jobs|show|job", "jobs|show|job|-o|json", "jobs|show|none" + hostile, "jobs|cancel|none" + hostile,
		"show|odd", "replay|message.id: odd|--dry-run|--unchecked-routes",
		"quarantine|list", "quarantine|list|-o|json", "quarantine|list|-o|ndjson", "quarantine|rewrite|--dry-run",
		"export|*", "import|" + file, "failed|discard|--ids|" + ids + "|--reason|x|--yes", "replay|*|--dry-run|--unchecked-routes", "replay|--ids|" + ids + "|--dry-run",
		"search|" + hostile, "search|queue: \"" + hostile, "search|--by|" + hostile, "search|--since|" + hostile, "search|--fields|" + hostile, hostile, "search|--" + hostile,
		"publish|--exchange|" + hostile, "config|show", "config|show|-o|json", "doctor", "doctor|-o|json",
		"config|show|--source|x" + hostile, "config|show|-o|json|--source|x" + hostile, "config|check|--store-url|" + hostile, "--config|" + hostile + "|search",
	}
	for _, line := range lines {
		got := a.call(t, strings.Split(line, "|")...)
		wantInert(t, line, got.Out)
		wantInert(t, line, got.Err)
		if strings.Contains(line, "-o|json") && got.Code == exitOK && !json.Valid([]byte(got.Out)) {
			t.Errorf("%.60q prints no JSON: %s", line, got.Out)
		}
	}
	for patience := 3 * time.Second; ; patience *= 3 { // tail ends with its context
		ctx, end := context.WithTimeout(t.Context(), patience)
		got := call(ctx, strings.NewReader(""), a.environ, "tail", "-n", "20")
		end()
		wantInert(t, "tail", got.Out+got.Err)
		if strings.Contains(got.Out, "poisoned") {
			return
		}
		if patience > rabbittest.Timeout {
			t.Fatalf("tail: %s%s", got.Out, got.Err)
		}
	}
}

// keepJob stores a job that is hostile in all that it says.
func (a seeded) keepJob(t *testing.T) {
	t.Helper()
	job := replayer.Job{
		ID: "job", State: replayer.Paused, Operator: hostile, Reason: hostile, Problem: hostile, Query: hostile, DSL: json.RawMessage(`{"x":"\u009b"}`),
		Target:  replayer.Target{Kind: replayer.ToExchange, Exchange: hostile},
		Changes: edit.Changes{Set: []string{hostile}, Remove: []string{hostile}},
		Total:   2, Failed: 2, Created: happened,
	}
	job.Failures = []replayer.Failure{{EventID: hostile, Message: hostile, Reason: hostile}, {EventID: hostile, Reason: hostile}}
	text, err := json.Marshal(job)
	if err == nil {
		_, err = a.CreateJob(t.Context(), job.ID, text)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// wantInert wants text that is printable, in lines.
func wantInert(t *testing.T, what, text string) {
	t.Helper()
	for i, r := range text {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) || r == utf8.RuneError {
			continue
		}
		t.Errorf("%.60q prints %q in %q", what, r, text[max(0, i-40):min(len(text), i+20)])
		return
	}
}

// A spreadsheet calculates nothing that a publisher chose.
func TestSheetsHaveNoFormulas(t *testing.T) { bothWays(t, testSheetsHaveNoFormulas) }

func testSheetsHaveNoFormulas(t *testing.T, seed seeder) {
	a := seed(t, "WATERSHIP_INDEX_NUMERIC_LABELS=n")
	for n, text := range []string{"=cmd|'/C calc'!A1", "@SUM(1)", "+1", "-1", "\t=1", "\r=1", "plain", "'=1"} {
		a.keep(t, a.event(n+1, schemas.Poisoned, poisonedAt(text, text), func(e *schemas.Event) {
			e.Envelope.Properties.MessageID, e.Envelope.Headers = text, amqp.Table{"n": int64(-5), "tenant": text}
		}))
	}
	for _, args := range []string{"", "--fields|message.id,queue,headers.tenant,error.message", "--by|queue", "--by|headers.tenant", "--by|error_group"} {
		out := a.must(t, append([]string{"search", "-o", "csv"}, strings.FieldsFunc(args, func(r rune) bool { return r == '|' })...)...)
		rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
		if err != nil || len(rows) < 5 {
			t.Fatalf("%s: %v\n%s", args, err, out)
		}
		for _, value := range fmt.Append(nil, "=+-@\t\r") {
			for _, row := range rows[1:] { // the first has the names of our fields
				for _, cell := range row {
					if cell != "" && cell[0] == value {
						t.Errorf("%s: %q begins a formula", args, cell)
					}
				}
			}
		}
	}
	wantLines(t, a.must(t, "search", "-o", "csv", "--fields", "numeric_labels.n", "-n", "1"), "numeric_labels.n\n-5")
}
