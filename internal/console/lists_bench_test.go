package console_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/httpapi"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// lists are the pages of the console, and what the commands ask for, by the text of a command. GROUP is the
// first group of the page of failures.
var lists = []struct{ name, path string }{
	{"console overview", "/"},
	{"console overview, all of it", "/?wait=1"},
	{"console messages", "/messages"},
	{"console messages, poisoned", "/messages?q=action%3A+poisoned"},
	{"console failures", "/failures"},
	{"console failures, last hour", "/failures?since=1h"},
	{"console failures, each", "/failures?view=list"},
	{"console group", "/failures/groups/GROUP"},
	{"console waiting", "/waiting"},
	{"console routes", "/routes"},
	{"console map", "/map?wait=1"},
	{"console replays", "/replays"},
	{"console alerts", "/alerts"},
	{"search", "/events?limit=20"},
	{"search 'action: poisoned'", "/events?limit=20&query=action%3A+poisoned"},
	{"search 'headers.n: 123456'", "/events?limit=20&query=headers.n%3A+123456"},
	{"search 'body.text: violin'", "/events?limit=20&query=body.text%3A+violin"},
	{"search 'body.json.customer.id: 77'", "/events?limit=20&query=body.json.customer.id%3A+77"},
	{"search --count", "/events/count"},
	{"search --by action", "/events/values?field=action"},
	{"search --by queue", "/events/values?field=queue"},
	{"search --by headers.tenant", "/events/values?field=headers.tenant"},
	{"search --by headers.customer", "/events/values?field=headers.customer"},
	{"search --by headers.n", "/events/values?field=headers.n"},
	{"search --by @timestamp", "/events/histogram"},
	{"failed", "/failures/groups?limit=1000"},
	{"failed --since 1h", "/failures/groups?limit=1000&since=1h"},
	{"failed --each", "/failures?limit=1000"},
	{"failed --by headers.tenant,queue", "/failures/by?fields=headers.tenant,queue"},
	{"show", "/messages/m-123456"},
	{"waiting", "/waiting/groups"},
	{"waiting --each", "/waiting"},
}

// BenchmarkLists measures every list on 500,000 events of a day, in both stores: 20,000 messages failed
// in 1,000 groups, and 10,000 of them are open. WATERSHIP_TEST_SQLITE_FILE and WATERSHIP_TEST_STREAM
// name a file and a data stream that it fills once and leaves for the next run, and WATERSHIP_TEST_MESSAGES
// is the number of messages of a new one, 240,000 by default, with two events each or some more.
func BenchmarkLists(b *testing.B) {
	b.Run("embedded", func(b *testing.B) {
		file := cmp.Or(os.Getenv("WATERSHIP_TEST_SQLITE_FILE"), filepath.Join(b.TempDir(), "store.db"))
		measureLists(b, new(traffic), "WATERSHIP_STORE_URL=sqlite:"+file)
	})
	b.Run("elasticsearch", func(b *testing.B) {
		store := os.Getenv("WATERSHIP_TEST_STORE_URL")
		if store == "" {
			b.Skip("WATERSHIP_TEST_STORE_URL is not set")
		}
		var asked traffic
		stream := os.Getenv("WATERSHIP_TEST_STREAM")
		if stream == "" {
			stream = fmt.Sprint("test-lists-", time.Now().UnixNano())
			b.Cleanup(func() { deleteStreams(b, store, stream) })
		}
		measureLists(b, &asked, "WATERSHIP_STORE_URL="+asked.proxy(b, store), "WATERSHIP_STORE_STREAM="+stream)
	})
}

// traffic counts the requests to Elasticsearch, and the bytes of its responses.
type traffic struct{ requests, bytes atomic.Int64 }

func (c *traffic) proxy(b *testing.B, to string) string {
	target, err := url.Parse(to)
	if err != nil {
		b.Fatal(err)
	}
	forward := httputil.NewSingleHostReverseProxy(target)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.requests.Add(1)
		forward.ServeHTTP(countedResponse{w, &c.bytes}, r)
	}))
	b.Cleanup(server.Close)
	return server.URL
}

type countedResponse struct {
	http.ResponseWriter
	bytes *atomic.Int64
}

func (w countedResponse) Write(p []byte) (int, error) {
	w.bytes.Add(int64(len(p)))
	return w.ResponseWriter.Write(p)
}

func measureLists(b *testing.B, asked *traffic, settings ...string) {
	s := newSystem(b, settings...)
	store, err := s.Store(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	n, err := store.Count(b.Context(), eventstore.Selection{})
	if err != nil {
		b.Fatal(err)
	}
	if n == 0 {
		fillWithFailures(b, store)
	}
	lastHour, err := store.HighestSequence(b.Context()) // when it was filled
	if err != nil {
		b.Fatal(err)
	}
	since := fmt.Sprint("since=", (time.Since(time.UnixMicro(lastHour)) + time.Hour).Round(time.Second))
	group := regexp.MustCompile(`/failures/groups/(\w+)`).FindStringSubmatch(s.get(b, "/failures").text)
	if group == nil {
		b.Fatal("the page of failures has no group")
	}
	for _, list := range lists {
		path := strings.NewReplacer("GROUP", group[1], "since=1h", since).Replace(list.path)
		if !strings.HasPrefix(list.name, "console ") {
			path = httpapi.Prefix + path
		}
		b.Run(list.name, func(b *testing.B) {
			var took []time.Duration
			requests, bytes, cpu := asked.requests.Load(), asked.bytes.Load(), cpuTime(b)
			for b.Loop() {
				began := time.Now()
				s.get(b, path).want(b, http.StatusOK)
				took = append(took, time.Since(began))
			}
			first, count := took[0], float64(len(took))
			slices.Sort(took)
			b.ReportMetric(float64(first.Microseconds())/1000, "first-ms")
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "median-ms")
			b.ReportMetric(float64((cpuTime(b)-cpu).Microseconds())/1000/count, "cpu-ms")
			b.ReportMetric(float64(asked.requests.Load()-requests)/count, "requests")
			b.ReportMetric(float64(asked.bytes.Load()-bytes)/1024/count, "KB")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// storedEvent is one event of message n.
type storedEvent struct {
	at     time.Duration // since the first event
	n      int
	action schemas.Action
	replay bool // of a handled event: of a replay
}

// fillWithFailures stores the events of messages of the last 24 hours. Every twelfth was given up,
// and a half of these are open; the others were discarded, or replayed and handled. Some of
// the last wait for their next attempt.
func fillWithFailures(b *testing.B, store interface {
	Create(ctx context.Context, documents []schemas.Document) ([]eventstore.Result, error)
	Refresh(ctx context.Context) error
},
) {
	const resolved = 10 * time.Minute
	messages := 240_000
	if n := os.Getenv("WATERSHIP_TEST_MESSAGES"); n != "" {
		var err error
		if messages, err = strconv.Atoi(n); err != nil {
			b.Fatal(err)
		}
	}
	each, began := 24*time.Hour/time.Duration(messages), time.Now()
	begin := began.Add(-24*time.Hour - time.Minute)
	var events []storedEvent
	for n := range messages {
		at := time.Duration(n) * each
		add := func(later time.Duration, action schemas.Action, replay bool) {
			if at+later < 24*time.Hour {
				events = append(events, storedEvent{at + later, n, action, replay})
			}
		}
		add(0, schemas.Published, false)
		switch failure := n / 12; {
		case n%12 == 0:
			if failure/2%2 == 0 {
				add(10*time.Millisecond, schemas.RetryScheduled, false)
			}
			add(time.Second, schemas.Poisoned, false)
			switch {
			case failure%4 == 1:
				add(resolved, schemas.Discarded, false)
			case failure%4 == 3:
				add(resolved, schemas.Replayed, false)
				add(resolved+time.Second, schemas.Handled, true)
			}
		case n%48 != 1:
			add(10*time.Millisecond, schemas.Handled, false)
		case n > messages-messages/10:
			add(10*time.Millisecond, schemas.RetryScheduled, false)
		}
	}
	slices.SortFunc(events, func(a, b storedEvent) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.n, b.n)) })
	var documents []schemas.Document
	create := func() {
		results, err := store.Create(b.Context(), documents)
		if err != nil || slices.ContainsFunc(results, func(r eventstore.Result) bool { return r.Status != eventstore.Created }) {
			b.Fatalf("%v %v", err, results)
		}
		documents = documents[:0]
	}
	for i, e := range events {
		documents = append(documents, schemas.DocumentFormat{}.Document(e.event(begin, each, int64(i))))
		if len(documents) == 2000 {
			create()
		}
	}
	if len(documents) > 0 {
		create()
	}
	if err := store.Refresh(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Logf("filled with %d events in %s", len(events), time.Since(began).Round(time.Second))
}

var letters = strings.Fields("alpha bravo charlie delta echo foxtrot golf hotel india juliett")

func (s storedEvent) event(begin time.Time, each time.Duration, i int64) schemas.Event {
	tenant, region := fmt.Sprint("t", s.n%7), letters[s.n%3]
	text := strings.Repeat("leave it at the door, ", 8)
	if s.n%5000 == 0 {
		text = "one violin, " + text
	}
	e := schemas.Event{
		Action: s.action, Sequence: begin.Add(s.at).UnixMicro() + i, TimeSource: wire.TimeOfEvent, Ingested: begin.Add(s.at), Source: "shop", VHost: "/",
		Envelope: schemas.Envelope{
			Exchange: letters[s.n%4], RoutingKey: fmt.Sprint("order.", letters[s.n%10]),
			Headers:    amqp.Table{"tenant": tenant, "region": region, "customer": int64(s.n % 1000), "n": int64(s.n)},
			Properties: schemas.Properties{MessageID: fmt.Sprint("m-", s.n), AppID: fmt.Sprint("service-", s.n%9), ContentType: "application/json", DeliveryMode: amqp.Persistent},
			Body:       fmt.Appendf(nil, `{"order":%d,"customer":{"id":%d,"tenant":%q},"lines":[{"sku":"s-%d","quantity":2}],"text":%q}`, s.n, s.n%5000, tenant, s.n%977, text),
		},
	}
	e.BodySize = len(e.Envelope.Body)
	e.State = schemas.State{EventID: fmt.Sprintf("%s-%d-%t", s.action, s.n, s.replay), Fingerprint: e.Envelope.Fingerprint(), Time: begin.Add(s.at)}
	if s.action == schemas.Published {
		return e
	}
	failed := s.n / 24 % 1000 // the number of its group
	e.Queue, e.Attempt, e.Route = letters[failed%10], 1, true
	if s.action == schemas.Handled {
		e.BodyIn, e.Envelope.Body, e.Duration = schemas.BodyInPublished, nil, time.Duration(s.n%100)*time.Millisecond
	}
	if s.n%12 <= 1 {
		e.Message, e.FirstFailed = fmt.Sprint("instance-", s.n), begin.Add(time.Duration(s.n)*each)
	}
	if s.action == schemas.RetryScheduled || s.action == schemas.Poisoned {
		e.Failure = schemas.Failure{Message: fmt.Sprintf("no stock in %s for %s", letters[failed/10%10], letters[failed/100]), Type: "*stock.Error", Class: "stock"}
	}
	if s.action == schemas.RetryScheduled {
		if e.Delay = 900 * time.Millisecond; s.n%12 != 0 {
			e.Delay = 10 * time.Hour
		}
	}
	if s.action == schemas.Discarded || s.action == schemas.Replayed || s.replay {
		e.ReplayOf = fmt.Sprintf("%s-%d-%t", schemas.Poisoned, s.n, false)
	}
	if s.action == schemas.Replayed || s.replay {
		e.Replay = "job-1"
	}
	if s.replay {
		e.Message = ""
	}
	return e
}

func deleteStreams(b testing.TB, store, prefix string) {
	b.Helper()
	for _, path := range []string{"/_data_stream/" + prefix + "-*", "/" + prefix + ".*", "/_index_template/" + prefix + "*", "/_component_template/" + prefix + "*"} {
		request, err := http.NewRequestWithContext(context.WithoutCancel(b.Context()), http.MethodDelete, store+path, nil)
		if err != nil {
			b.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			b.Fatal(err)
		}
		response.Body.Close()
	}
}
