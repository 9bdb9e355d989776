package receiver_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/watershipmq/watership/internal/operate/alerts/notice"
	"github.com/watershipmq/watership/pipeline/bodyschema"
)

// request is a request that a vendor got.
type request struct {
	path, authorization string
	body                []byte
}

// vendor is a server of a vendor, which checks each body by the schema of its documentation.
type vendor struct {
	*httptest.Server
	mu       sync.Mutex
	requests []request
	limit    int // of requests; 0: none
}

func newVendor(t *testing.T, schema string) *vendor {
	t.Helper()
	checked, err := bodyschema.Load("testdata/" + schema + ".json")
	if err != nil {
		t.Fatal(err)
	}
	v := &vendor{}
	v.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		v.mu.Lock()
		defer v.mu.Unlock()
		if err := checked.Check(body); err != nil {
			t.Errorf("%v\n%s", err, body)
		}
		if v.limit > 0 && len(v.requests) == v.limit {
			w.Header().Set("Retry-After", "60")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		v.requests = append(v.requests, request{r.URL.RequestURI(), r.Header.Get("Authorization"), body})
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(v.Close)
	return v
}

func decode[T any](t *testing.T, body []byte) (value T) {
	t.Helper()
	if err := json.Unmarshal(body, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

const vendorKey = "0123456789abcdef0123456789abcdef"

// long is a notice with long texts, markup and many alerts.
func long(alerts int) notice.Notice {
	n := example()
	text := strings.Repeat(`[link](https://evil.example) @everyone **"é"** <at>all</at> `, 200)
	n.Alerts[0].Summary, n.Alerts[0].Detail, n.Alerts[0].Labels["class"] = text, text, text
	for i := range alerts - len(n.Alerts) {
		item := n.Alerts[0]
		item.Labels = map[string]string{"queue": fmt.Sprint("q", i)}
		n.Alerts = append(n.Alerts, item)
	}
	return n
}

func ended(n notice.Notice) notice.Notice {
	n.ID, n.Alerts = n.ID+"-ended", slices.Clone(n.Alerts)
	for i := range n.Alerts {
		n.Alerts[i].Status, n.Alerts[i].Ended = notice.Resolved, &n.Time
	}
	return n
}

type pagerdutyEvent struct {
	Action string `json:"event_action"`
	Key    string `json:"dedup_key"`
	Links  []struct{ Href string }
}

// The incident of each alert is resolved by the key that has opened it, by another process, too.
func TestPagerDuty(t *testing.T) {
	v := newVendor(t, "pagerduty")
	yaml := "pagerduty: {key_file: " + write(t, vendorKey+"\n") + ", url: '" + v.URL + "/'}"
	for _, n := range []notice.Notice{example(), ended(example()), long(3), {
		ID: "t", Source: "shop", Test: true, Alerts: notice.TestNotice("shop", "ops", "ann", "https://watership.example/", began).Alerts,
	}} {
		if _, err := loaded(t, yaml).Send(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	var events []pagerdutyEvent
	for _, r := range v.requests {
		if r.path != "/v2/enqueue" {
			t.Errorf("path %s", r.path)
		}
		events = append(events, decode[pagerdutyEvent](t, r.body))
	}
	if len(events) != 9 {
		t.Fatalf("%+v", events)
	}
	opened, mails, closed := events[0], events[1], events[2]
	if opened.Action != "trigger" || opened.Links[0].Href != "https://watership.example/failures?q=1" || mails.Action != "resolve" {
		t.Errorf("%+v, %+v", opened, mails)
	}
	if closed.Action != "resolve" || closed.Key != opened.Key || opened.Key == mails.Key {
		t.Errorf("opened %q and %q, closed %q", opened.Key, mails.Key, closed.Key)
	}
	if test := events[7:]; test[0].Action != "trigger" || test[1].Action != "resolve" || test[0].Key != test[1].Key {
		t.Errorf("a test leaves an incident open: %+v", test)
	}
}

// The alert of Opsgenie is closed by its alias.
func TestOpsgenie(t *testing.T) {
	v := newVendor(t, "opsgenie")
	r := loaded(t, "opsgenie: {key_file: "+write(t, vendorKey)+", url: '"+v.URL+"'}")
	for _, n := range []notice.Notice{example(), ended(example()), long(3)} {
		if _, err := r.Send(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	created := decode[struct {
		Alias, Priority, Description string
		Details                      map[string]string
	}](t, v.requests[0].body)
	if created.Priority != "P1" || !strings.Contains(created.Description, "https://watership.example/failures?q=1") || created.Details["team"] != "shop" {
		t.Errorf("%+v", created)
	}
	if want := "/v2/alerts/" + created.Alias + "/close?identifierType=alias"; v.requests[2].path != want {
		t.Errorf("closed by %s, want %s", v.requests[2].path, want)
	}
	for _, r := range v.requests {
		if r.authorization != "GenieKey "+vendorKey {
			t.Errorf("authorization %q", r.authorization)
		}
	}
}

// A service that limits requests gets a long notice in parts, and each alert once.
func TestIncidentsInParts(t *testing.T) {
	v := newVendor(t, "pagerduty")
	r := loaded(t, "pagerduty: {key_file: "+write(t, vendorKey)+", url: '"+v.URL+"'}")
	n, attempts := long(100), 0
	for v.limit = 40; ; v.limit += 40 {
		attempts++
		_, err := r.Send(t.Context(), n)
		if err == nil {
			break
		}
		if want := fmt.Sprintf("it took %d of 100 alerts: it answered 429", v.limit); !strings.HasPrefix(err.Error(), want) {
			t.Fatalf("%v, want %s", err, want)
		}
	}
	keys := map[string]bool{}
	for _, request := range v.requests {
		keys[decode[pagerdutyEvent](t, request.body).Key] = true
	}
	if attempts != 3 || len(v.requests) != 100 || len(keys) != 100 {
		t.Errorf("%d attempts, %d requests, %d keys", attempts, len(v.requests), len(keys))
	}
}

// Chats get the form of their vendor, within its limits, with a link to the page of each alert and no markup
// from the texts of alerts.
func TestChats(t *testing.T) {
	for kind, most := range map[string]func(body []byte) int{
		"teams":   func(body []byte) int { return 28_000 - len(body) },
		"discord": func(body []byte) int { return 6_000 - discordCharacters(t, body) },
	} {
		v := newVendor(t, kind)
		r := loaded(t, kind+": {url_file: "+write(t, v.URL+"/s3cret\n")+"}")
		for i, n := range []notice.Notice{example(), ended(example()), long(1), long(100)} {
			if _, err := r.Send(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			body := v.requests[i].body
			if left := most(body); left < 0 {
				t.Errorf("%s: %d more than it takes", kind, -left)
			}
			if linked := `"url":"https://watership.example/failures?q=1"`; !strings.Contains(string(body), linked) {
				t.Errorf("%s: no link in %s", kind, body)
			}
		}
		if more := string(v.requests[3].body); !strings.Contains(more, "more alerts") {
			t.Errorf("%s does not say that alerts are left out: %s", kind, more)
		}
		if kind == "discord" && strings.Contains(string(v.requests[2].body), "[link](") {
			t.Errorf("a link of a message: %s", v.requests[2].body)
		}
		if strings.Contains(r.To, "s3cret") {
			t.Errorf("it shows %s", r.To)
		}
	}
}

// discordCharacters returns the number of characters that Discord counts in all embeds.
func discordCharacters(t *testing.T, body []byte) (n int) {
	t.Helper()
	for _, e := range decode[struct {
		Embeds []struct {
			Title, Description string
			Footer             struct{ Text string }
		}
	}](t, body).Embeds {
		n += utf8.RuneCountInString(e.Title) + utf8.RuneCountInString(e.Description) + utf8.RuneCountInString(e.Footer.Text)
	}
	return n
}
