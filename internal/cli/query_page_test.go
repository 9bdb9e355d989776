package cli

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
)

// TestQueryPage asks the queries of docs/query.md as they are printed, and compares
// their results.
func TestQueryPage(t *testing.T) { inEitherStore(t, testQueryPage) }

func testQueryPage(t *testing.T, seed seeder) {
	text, err := os.ReadFile("../../docs/query.md")
	if err != nil {
		t.Fatal(err)
	}
	a := seed(t)
	a.keep(t, eventsOfQueryPage(a)...)
	rows := regexp.MustCompile("(?m)^\\| `(.+?)` \\| (none|m-\\d(?:, m-\\d)*) \\|").FindAllStringSubmatch(string(text), -1)
	for _, row := range rows {
		query := strings.ReplaceAll(row[1], `\|`, "|")
		lines := strings.Fields(a.must(t, "search", query, "--fields", "message.id", "-o", "csv"))[1:]
		slices.Sort(lines)
		if got := strings.Join(lines, ", "); got != strings.TrimPrefix(row[2], "none") {
			t.Errorf("%s: found %q, want %s", query, got, row[2])
		}
	}
	blocks := regexp.MustCompile("(?ms)^```console\n\\$ watership search (.*?)\n(.*?)^```").FindAllStringSubmatch(string(text), -1)
	for _, block := range blocks {
		r := a.call(t, append([]string{"search"}, unquoted(block[1])...)...)
		if got := r.Out + r.Err; trimmedLines(got) != trimmedLines(block[2]) {
			t.Errorf("search %s\n got %s\nwant %s", block[1], got, block[2])
		}
	}
	if len(rows) < 25 || len(blocks) < 6 {
		t.Errorf("the page has %d queries and %d commands", len(rows), len(blocks))
	}
}

func eventsOfQueryPage(a seeded) []schemas.Event {
	tried := func(queue string, attempt int) func(*schemas.Event) {
		return func(e *schemas.Event) { e.Queue, e.Attempt = queue, attempt }
	}
	failed := func(message string) func(*schemas.Event) {
		return func(e *schemas.Event) {
			e.Failure = schemas.Failure{Message: message, Type: "http.Status", Class: "server"}
		}
	}
	tenant := func(name string) func(*schemas.Event) {
		return func(e *schemas.Event) { e.Envelope.Headers = amqp.Table{"tenant": name} }
	}
	return []schemas.Event{
		a.event(1, schemas.Published, tenant("acme")),
		a.event(2, schemas.Handled, tenant("acme"), tried("orders", 1)),
		a.event(3, schemas.Poisoned, tenant("umbrella"), tried("orders", 3), failed("no such table: violins")),
		a.event(4, schemas.RetryScheduled, tenant("acme-2"), tried("mails", 1), failed("cannot connect: timed out")),
		a.event(5, schemas.Handled, tenant("acme-2"), tried("mails", 2)),
	}
}

// unquoted are the arguments of a line without any expansion.
func unquoted(line string) []string {
	if inner, quoted := strings.CutPrefix(line, "'"); quoted {
		return []string{strings.TrimSuffix(inner, "'")}
	}
	return strings.Fields(line)
}

// trimmedLines have no space at their ends, as lines of Markdown.
func trimmedLines(text string) string {
	return regexp.MustCompile(`(?m)[ \t]+$`).ReplaceAllString(strings.TrimSpace(text), "")
}
