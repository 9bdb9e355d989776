package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/schemas"
)

func TestCompletion(t *testing.T) {
	p := servertest.Newest(t)
	queue := p.Broker.Queue(t, nil)
	a := aFew(t, seedOn(p))
	a.keep(t, a.event(4, schemas.Poisoned, poisonedAt("orders", "timeout")))
	file := servertest.WriteFile(t, "w.yaml", "tap: {exchanges: [{name: shop, type: topic}]}\nroutes: [{queue: orders, bind: [{exchange: mails}], handler: {http: {url: 'http://x/'}}}]\n")
	a.environ = append(a.environ, "WATERSHIP_CONFIG="+file, "WATERSHIP_INDEX_LABELS=tenant")
	for _, test := range []struct {
		args string
		want []string // among what is offered
		not  string
	}{
		{"|", []string{"search", "failed", "doctor"}, ""},
		{"search|event.a", []string{"event.action:"}, "watership.queue:"},
		{"search|action: poisoned and (labels.", []string{"action: poisoned and (labels.tenant:"}, ""},
		{"search|act", []string{"action:"}, "attempt:"},
		{"search|", []string{"event.action:"}, "action:"},
		{"failed|discard|queue: o", []string{"queue: orders"}, ""},
		{"replay|--group|", []string{"timeout"}, "no such table: violins"}, // of several words
		{"search|action: pois", []string{"action: poisoned"}, "action: handled"},
		{"search|queue: o", []string{"queue: orders"}, ""},
		{"search|queue: " + queue[:9], []string{"queue: " + queue}, ""},
		{"search|error.type: h", []string{"error.type: http.Status"}, "error.type: http"},
		{"search|fingerprint: v", nil, "fingerprint: v1"}, // a query wants quotes around it
		{"search|error.type: \"", []string{`error.type: "http.Status"`}, ""},
		{"search|--fields|event.action,watership.que", []string{"event.action,watership.queue"}, ""},
		{"search|--by|watership.err", []string{"watership.error_group"}, ""},
		{"search|-o|", []string{"table", "csv"}, ""},
		{"publish|--exchange|", []string{"mails", "shop"}, ""},
		{"replay|--to-exchange|amq.t", []string{"amq.topic"}, "amq.direct"},
		{"show|m-", []string{"m-4", "m-3", "m-2", "m-1"}, ""},
		{"show|m-2", []string{"m-2"}, "m-1"},
	} {
		args := append([]string{"__complete"}, strings.Split(strings.TrimPrefix(test.args, "|"), "|")...)
		var offered string
		servertest.Until(t, fmt.Sprintf("%s to offer %q", test.args, test.want), func() bool { // a busy server offers nothing in time
			got := a.call(t, args...)
			offered = "\n" + got.Out
			return !slices.ContainsFunc(test.want, func(want string) bool {
				return !strings.Contains(offered, "\n"+want+"\n") && !strings.Contains(offered, "\n"+want+"\t")
			})
		})
		if test.not != "" && strings.Contains(offered, "\n"+test.not+"\n") {
			t.Errorf("%s: %q is offered", test.args, test.not)
		}
	}
}

// Servers that are away, or do not answer, end a completion that offers nothing of theirs.
func TestCompletionWithoutServers(t *testing.T) {
	t.Parallel()
	away := []string{"WATERSHIP_STORE_URL=http://127.0.0.1:1", "WATERSHIP_AMQP_URL=amqp://127.0.0.1:1/"}
	if got := call(t.Context(), strings.NewReader(""), away, "__complete", "search", "error.type: "); got.Code != exitOK || strings.Contains(got.Err, "refused") {
		t.Errorf("without servers: %+v", got)
	}
	hung := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(hung.Close)
	if got := call(t.Context(), strings.NewReader(""), []string{"WATERSHIP_STORE_URL=" + hung.URL}, "__complete", "show", "m-"); got.Code != exitOK || strings.Contains(got.Out, "m-") {
		t.Errorf("while the store answers nothing: %+v", got)
	}
}

// A shell puts what it is offered on the command line, of several candidates
// without quotes: what others choose is offered only where it is one plain word.
func TestCompletionOffersPlainWords(t *testing.T) {
	p := servertest.Newest(t)
	a := seedOn(p)(t)
	for n, text := range hostileTexts() {
		a.keep(t, a.event(n, schemas.Poisoned, poisonedAt(text, text), func(e *schemas.Event) {
			e.Envelope.Properties.MessageID, e.Failure.Type, e.Envelope.Exchange = text, text, text
		}))
		declare(t, p.Broker, text)
		keepPaused(t, a, fmt.Sprint("job-", n), text)
	}
	keepPaused(t, a, "plain", "plain")
	for _, verb := range []string{"show", "resume", "cancel"} {
		var out string
		servertest.Until(t, "a job to be offered to jobs "+verb, func() bool { // a busy server offers nothing in time
			out = a.call(t, "__complete", "jobs", verb, "").Out
			return strings.Contains(out, "\t")
		})
		if !strings.HasPrefix(out, "plain\t") {
			t.Errorf("jobs %s offers %q", verb, out)
		}
	}
	plain := regexp.MustCompile(`^[A-Za-z0-9._:/@+][A-Za-z0-9._:/@+-]*$`)
	for _, line := range []string{
		"show|", "publish|--exchange|", "replay|--to-exchange|", "replay|--to-queue|", "replay|--group|",
		"jobs|show|", "jobs|resume|", "jobs|cancel|", "search|--fields|", "search|--by|", "tail|--fields|", "search|", "failed|", "export|",
		"search|queue: ", "search|destination.name: ", "search|error.type: ", "search|error.type: \"", "search|message.id: ", "search|error_group: ",
		"show|$", "show|x;", "replay|--to-queue|$", "search|error.type: \"$",
	} {
		args := strings.Split(line, "|")
		typed := args[len(args)-1]
		typed = typed[:strings.LastIndex(typed, " ")+1]
		out, _, _ := strings.Cut(a.call(t, append([]string{"__complete"}, args...)...).Out, "\n:")
		for candidate := range strings.Lines(out) {
			name := strings.Trim(strings.TrimPrefix(strings.TrimSuffix(candidate, "\n"), typed), `"`)
			if name, _, _ = strings.Cut(name, "\t"); !plain.MatchString(name) {
				t.Errorf("%s: %q is offered", line, candidate)
			}
		}
	}
}

// keepPaused stores a paused job that says what its id is.
func keepPaused(t *testing.T, a seeded, key, id string) {
	t.Helper()
	text, err := json.Marshal(replayer.Job{ID: id, State: replayer.Paused, Created: happened})
	if err == nil {
		_, err = a.CreateJob(t.Context(), key, text)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// hostileTexts are ids and names by which something is meant to happen in a shell.
func hostileTexts() []string {
	return []string{
		"$(touch PWNED)-1", "$(touch PWNED)-2", "`touch PWNED`", "x;touch PWNED", "x|touch PWNED", "x&touch PWNED", "<(touch PWNED)", "(touch PWNED)",
		"--config=/tmp/other.yaml", "-c/tmp/other.yaml", "m --config=/tmp/other.yaml", "a\ttouch", "a\\", "'a", "\"a", "~root", "=ls", "{a,b}", "*", "!1", "a#b",
		"\x1b]0;x\a", "\u202eb", "\u00a0", "ü",
	}
}

// declare makes a queue and an exchange that are gone when the test ends.
func declare(t *testing.T, broker rabbittest.Broker, name string) {
	t.Helper()
	channel := broker.Channel(t)
	if _, err := channel.QueueDeclare(name, false, true, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := channel.ExchangeDeclare(name, "fanout", false, true, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := channel.QueueBind(name, "", name, false, nil); err != nil { // the exchange goes with its last binding
		t.Fatal(err)
	}
}

// No colours but on a terminal.
func TestColours(t *testing.T) { bothWays(t, testColours) }

func testColours(t *testing.T, seed seeder) {
	a := aFew(t, seed)
	if got := a.must(t, "search"); strings.Contains(got, "\x1b") {
		t.Errorf("%q", got)
	}
}
