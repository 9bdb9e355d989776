package receiver_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/operate/alerts/notice"
	"github.com/watershipmq/watership/internal/operate/alerts/receiver"
	"github.com/watershipmq/watership/internal/render/wording"
)

// load reads the receiver of a configuration, as serve does.
func load(t *testing.T, yaml string) (receiver.Receiver, error) {
	t.Helper()
	file := write(t, "alerts:\n  receivers:\n    - name: ops\n      "+strings.ReplaceAll(strings.TrimSpace(yaml), "\n", "\n      ")+"\n")
	cfg, err := config.Load(config.Sources{File: file})
	if err != nil {
		t.Fatal(err)
	}
	receivers, err := receiver.New(cfg.Alerts.Receivers)
	if err != nil {
		return receiver.Receiver{}, err
	}
	return receivers[0], nil
}

func loaded(t *testing.T, yaml string) receiver.Receiver {
	t.Helper()
	r, err := load(t, yaml)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func write(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

var began = time.Now().Add(-3 * time.Minute).UTC().Truncate(time.Millisecond)

// example is a notice of one alert that fires and one that has ended.
func example() notice.Notice {
	ended := began.Add(2 * time.Minute)
	return notice.Notice{
		ID: "0123abcd", Source: "shop", Receiver: "ops", Time: began.Add(3 * time.Minute), Status: notice.Firing, Others: 2, Link: "https://watership.example/alerts",
		Alerts: []notice.Item{
			{
				Alert: notice.Alert{
					Rule: "failures", On: notice.OnNewGroup, Severity: "critical", Labels: map[string]string{"queue": "orders", "class": "no <stock>"}, Extra: map[string]string{"team": "shop"},
					Summary: "new failures in queue orders: no <stock> & more", Detail: "1 message", Link: "https://watership.example/failures?q=1",
				},
				Status: notice.Firing, Since: began,
			},
			{Alert: notice.Alert{Rule: "paused", On: notice.OnPaused, Severity: "warning", Labels: map[string]string{"queue": "mails"}, Summary: "the route of queue mails is paused"}, Status: notice.Resolved, Since: began, Ended: &ended},
		},
	}
}

// server records the requests that it gets.
type server struct {
	*httptest.Server
	header http.Header
	body   []byte
	status int
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{status: http.StatusOK}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.header = r.Header
		s.body, _ = io.ReadAll(r.Body)
		if s.status == http.StatusFound {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(s.status)
		fmt.Fprint(w, "ok\n")
	}))
	t.Cleanup(s.Close)
	return s
}

// A webhook gets the notice as JSON, with the headers of the configuration and a signature.
func TestWebhook(t *testing.T) {
	s, secret := newServer(t), []byte(strings.Repeat("s", 32))
	file, token := write(t, base64.StdEncoding.EncodeToString(secret)+"\n"), write(t, "t0ken\n")
	r := loaded(t, "webhook: {url: '"+s.URL+"/hook', secret_file: "+file+", token_file: "+token+", set_headers: {X-Team: shop}}")
	answer, err := r.Send(t.Context(), example())
	if err != nil || answer != "200 OK ok" {
		t.Errorf("%q, %v", answer, err)
	}
	var got notice.Notice
	decoder := json.NewDecoder(bytes.NewReader(s.body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&got); err != nil || len(got.Alerts) != 2 || got.Alerts[1].Ended == nil || got.Alerts[0].Labels["queue"] != "orders" {
		t.Errorf("%+v, %v", got, err)
	}
	for name, want := range map[string]string{"Content-Type": "application/json", "X-Team": "shop", "Authorization": "Bearer t0ken", "Idempotency-Key": "0123abcd", "Webhook-Id": "msg_0123abcd"} {
		if got := s.header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "msg_0123abcd.%s.%s", s.header.Get("Webhook-Timestamp"), s.body)
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); s.header.Get("Webhook-Signature") != want {
		t.Errorf("signature %s, want %s", s.header.Get("Webhook-Signature"), want)
	}
}

// A template makes another body.
func TestTemplate(t *testing.T) {
	s := newServer(t)
	text := `{"title": {{json (printf "%d firing" (len .Firing))}}, "lines": [{{range $i, $a := .Alerts}}{{if $i}}, {{end}}{{json $a.Summary}}{{end}}], "at": "{{time .Time}}"}`
	for _, setting := range []string{"template: '" + text + "'", "template_file: " + write(t, text)} {
		r := loaded(t, "webhook: {url: '"+s.URL+"', "+setting+", content_type: application/vnd.chat+json}")
		if _, err := r.Send(t.Context(), example()); err != nil {
			t.Fatal(err)
		}
		want := `{"title": "1 firing", "lines": ["new failures in queue orders: no <stock> & more", "the route of queue mails is paused"], "at": "` + example().Time.Format(time.RFC3339) + `"}`
		if string(s.body) != want || s.header.Get("Content-Type") != "application/vnd.chat+json" {
			t.Errorf("got %s\nwant %s", s.body, want)
		}
	}
}

// A refusal is an error with what the receiver has answered, and without the URL, which may
// be a secret. A redirect is a refusal.
func TestRefusals(t *testing.T) {
	s := newServer(t)
	for _, yaml := range []string{"webhook: {url: '" + s.URL + "/s3cret'}", "slack: {url_file: " + write(t, s.URL+"/s3cret") + "}", "alertmanager: {urls: ['" + s.URL + "/s3cret']}"} {
		r := loaded(t, yaml)
		for _, status := range []int{http.StatusFound, http.StatusBadRequest, http.StatusServiceUnavailable} {
			s.status = status
			if _, err := r.Send(t.Context(), example()); err == nil || !strings.Contains(err.Error(), fmt.Sprint(status)) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%s: %d: %v", r.Kind, status, err)
			}
		}
		if strings.Contains(r.To, "s3cret") {
			t.Errorf("it shows %s", r.To)
		}
		away := loaded(t, strings.ReplaceAll(yaml, s.URL, "http://127.0.0.1:1"))
		if r.Kind == "slack" {
			away = loaded(t, "slack: {url_file: "+write(t, "http://127.0.0.1:1/s3cret")+"}")
		}
		if _, err := away.Send(t.Context(), example()); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", r.Kind, err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("stopped"))
	if _, err := loaded(t, "webhook: {url: '"+s.URL+"'}").Send(ctx, example()); err == nil {
		t.Error("a request after the end of its context")
	}
}

// Slack gets its form, with no markup from the texts of alerts.
func TestSlack(t *testing.T) {
	s := newServer(t)
	r := loaded(t, "slack: {url_file: "+write(t, s.URL+"/services/T0/B0/x\n")+"}")
	if answer, err := r.Send(t.Context(), example()); err != nil || answer != "200 OK ok" {
		t.Fatalf("%q, %v", answer, err)
	}
	var got struct {
		Text        string
		Attachments []struct {
			Color, Title, Text, Footer string
			Link                       string `json:"title_link"`
		}
	}
	if err := json.Unmarshal(s.body, &got); err != nil {
		t.Fatal(err)
	}
	if want := "*[Watership shop] 1 firing, 1 resolved: new failures in queue orders: no &lt;stock&gt; &amp; more and others* <https://watership.example/alerts|open>"; got.Text != want {
		t.Errorf("text %s\nwant %s", got.Text, want)
	}
	if len(got.Attachments) != 2 || got.Attachments[0].Color != "danger" || got.Attachments[1].Color != "good" || got.Attachments[0].Link != "https://watership.example/failures?q=1" {
		t.Errorf("%+v", got.Attachments)
	}
	many := example()
	for range 100 {
		many.Alerts = append(many.Alerts, many.Alerts[0])
	}
	if _, err := r.Send(t.Context(), many); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(s.body, &got); err != nil || len(got.Attachments) != 20 || got.Attachments[19].Title != "83 more" {
		t.Errorf("%d attachments, %v", len(got.Attachments), err)
	}
}

// Of a cluster every member gets the alerts, and one that takes them is enough.
func TestAlertmanagers(t *testing.T) {
	a, b := newServer(t), newServer(t)
	r := loaded(t, "alertmanager: {urls: ['"+a.URL+"', '"+b.URL+"/prefix/'], username: shop, password_file: "+write(t, "pw\n")+"}")
	a.status = http.StatusInternalServerError
	answer, err := r.Send(t.Context(), example())
	if err != nil || !strings.Contains(answer, "200 OK") || !strings.Contains(answer, "500") || !strings.HasPrefix(b.header.Get("Authorization"), "Basic ") {
		t.Errorf("%q, %v", answer, err)
	}
	b.status = http.StatusUnauthorized
	if _, err := r.Send(t.Context(), example()); err == nil || !strings.Contains(err.Error(), "500") || !strings.Contains(err.Error(), "401") {
		t.Errorf("%v", err)
	}
}

// Texts of messages reach no receiver with what acts on a terminal, forges lines or turns the direction.
func TestTextsAreSafe(t *testing.T) {
	const forged = "no \x1b[2J\x1b]0;owned\x07stock\r\nRESOLVED: all\t\u009b31m \u2028 \u202egnp\x7f \xff"
	n := example()
	n.Alerts[0].Summary, n.Alerts[0].Detail, n.Alerts[0].Muted = forged, forged, forged
	n.Alerts[0].Labels["class"] = forged
	n.Alerts = n.Alerts[:1] // what gets each alert by itself posts it last
	posted, mails := newServer(t), newSMTPServer(t, true)
	text := func() string { return string(posted.body) }
	template := "{{range .Alerts}}{{.Summary}} {{.Detail}} {{.Muted}} {{range .Labels}}{{.}} {{end}}{{end}}"
	for name, c := range map[string]struct {
		yaml string
		sent func() string
	}{
		"webhook":      {"webhook: {url: '" + posted.URL + "'}", text},
		"template":     {"webhook: {url: '" + posted.URL + "', template: '" + template + "'}", text},
		"slack":        {"slack: {url_file: " + write(t, posted.URL) + "}", text},
		"alertmanager": {"alertmanager: {urls: ['" + posted.URL + "']}", text},
		"teams":        {"teams: {url_file: " + write(t, posted.URL) + "}", text},
		"pagerduty":    {"pagerduty: {key_file: " + write(t, "k") + ", url: '" + posted.URL + "'}", text},
		"opsgenie":     {"opsgenie: {key_file: " + write(t, "k") + ", url: '" + posted.URL + "'}", text},
		"mail":         {"mail: {server: '" + mails.address() + "', tls: tls, ca: " + mails.ca + ", from: ops@shop.example, to: [a@shop.example]}", func() string { return mailText(t, mails.mails[0]) }},
	} {
		if _, err := loaded(t, c.yaml).Send(t.Context(), n); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		sent := c.sent()
		if decoded, ok := stringsOf(sent); ok {
			sent = decoded
		}
		if !strings.Contains(sent, "[2J") || !strings.Contains(sent, "stock  RESOLVED: all") {
			t.Errorf("%s does not have the text: %q", name, sent)
		}
		if at := strings.IndexFunc(sent, func(r rune) bool { return r != '\n' && wording.SafeRune(r) != r }); at >= 0 {
			t.Errorf("%s has %q", name, sent[max(0, at-10):min(at+10, len(sent))])
		}
	}
	if n.Alerts[0].Labels["class"] != forged {
		t.Error("the labels of the alert itself, which identify it, have changed")
	}
}

// stringsOf returns the texts of JSON, as a program that decodes it has them.
func stringsOf(text string) (decoded string, isJSON bool) {
	decoder := json.NewDecoder(strings.NewReader(text))
	for {
		token, err := decoder.Token()
		if err != nil {
			return decoded, errors.Is(err, io.EOF)
		}
		if value, is := token.(string); is {
			decoded += value + "\n"
		}
	}
}

// A muted alert is told as such, not as mended; what a rule leaves out is told, too.
func TestMutedAndOmitted(t *testing.T) {
	s := newServer(t)
	r := loaded(t, "slack: {url_file: "+write(t, s.URL+"/services/x\n")+"}")
	n := example()
	n.Alerts, n.Omitted = n.Alerts[1:], 7
	n.Alerts[0].Muted = "by ada until 2026-05-08T12:00:00Z: closed"
	if _, err := r.Send(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"muted: the route", "muted by ada until 2026-05-08T12:00:00Z: closed", "7 more are not listed"} {
		if !strings.Contains(string(s.body), want) {
			t.Errorf("no %q in %s", want, s.body)
		}
	}
	if strings.Contains(string(s.body), "good") || strings.Contains(string(s.body), "resolved") {
		t.Errorf("it is told as mended: %s", s.body)
	}
}

// A receiver may say when it takes the next notice.
func TestRetryAfter(t *testing.T) {
	limited := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "120")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer limited.Close()
	_, err := loaded(t, "webhook: {url: '"+limited.URL+"'}").Send(t.Context(), example())
	var later *notice.LaterError
	if !errors.As(err, &later) || later.After != 2*time.Minute {
		t.Errorf("%v", err)
	}
}

// An Alertmanager refuses alerts that end before they begin, as clocks that disagree tell them.
func TestAlertmanagerTimes(t *testing.T) {
	s := newServer(t)
	r := loaded(t, "alertmanager: {urls: ['"+s.URL+"']}")
	n := example()
	n.Alerts[0].Since = n.Time.Add(time.Hour)
	n.Alerts[1].Since = n.Alerts[1].Ended.Add(time.Minute)
	if _, err := r.Send(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	var posted []struct{ StartsAt, EndsAt time.Time }
	if err := json.Unmarshal(s.body, &posted); err != nil || len(posted) != 2 {
		t.Fatalf("%s, %v", s.body, err)
	}
	for _, a := range posted {
		if a.EndsAt.Before(a.StartsAt) {
			t.Errorf("an alert from %s to %s", a.StartsAt, a.EndsAt)
		}
	}
}

// Members of a cluster that do not answer hold up neither the member that does nor the notices
// that follow.
func TestAlertmanagersThatHang(t *testing.T) {
	t.Parallel()
	released, taken := make(chan struct{}), newServer(t)
	var urls []string
	for range 2 {
		hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-released }))
		defer hanging.Close()
		urls = append(urls, "'"+hanging.URL+"'")
	}
	defer close(released)
	r := loaded(t, "alertmanager: {urls: ["+strings.Join(urls, ", ")+", '"+taken.URL+"']}")
	ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second) // less than the time-out of a request
	defer cancel()
	answer, err := r.Send(ctx, example())
	if err != nil || !strings.Contains(answer, "200 OK") || strings.Count(answer, "no answer") != 2 || taken.body == nil {
		t.Errorf("%q, %v", answer, err)
	}
}

// Each mistake in the files and templates of a receiver is one clear error at the start.
func TestMistakes(t *testing.T) {
	for yaml, want := range map[string]string{
		"slack: {url_file: /nowhere/url}":                                                 "alerts.receivers[0].slack.url_file: /nowhere/url: no such file or directory",
		"discord: {url_file: " + write(t, "discord.com") + "}":                            "alerts.receivers[0].discord.url_file",
		"pagerduty: {key_file: /nowhere/key}":                                             "alerts.receivers[0].pagerduty.key_file: /nowhere/key: no such file",
		"opsgenie: {key_file: /nowhere/key}":                                              "alerts.receivers[0].opsgenie.key_file: /nowhere/key: no such file",
		"slack: {url_file: " + write(t, "hooks.slack.com") + "}":                          "expected the URL of an incoming webhook",
		"webhook: {url: 'http://h', template: '{{.Nothing}}'}":                            "alerts.receivers[0].webhook.template: template: notice:1:2: executing",
		"webhook: {url: 'http://h', template: '{{if}}'}":                                  "alerts.receivers[0].webhook.template: template: notice:1: missing value for if",
		"webhook: {url: 'http://h', template_file: /nowhere/t}":                           "alerts.receivers[0].webhook.template_file: /nowhere/t: no such file",
		"webhook: {url: 'http://h', secret_file: " + write(t, "short") + "}":              "line 1 is no secret",
		"webhook: {url: 'http://h', set_headers: {X-Queue: '{headers.queue}'}}":           "alerts.receivers[0].webhook.set_headers.X-Queue: expected text without fields",
		"webhook: {url: 'http://h', tls: {ca: /nowhere/ca}}":                              "alerts.receivers[0].webhook.tls.ca: /nowhere/ca: no such file",
		"alertmanager: {urls: ['http://h'], token_file: /nowhere/token}":                  "alerts.receivers[0].alertmanager.token_file: /nowhere/token: no such file",
		"mail: {server: 'h:25', from: a@b, to: [c@d], username: u, password_file: /nopw}": "alerts.receivers[0].mail.password_file: /nopw: no such file",
	} {
		if _, err := load(t, yaml); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n got %v\nwant %s", yaml, err, want)
		}
	}
}
