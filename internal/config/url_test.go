package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestURLHidesItsPassword(t *testing.T) {
	for url, want := range map[string]string{
		"":                                    "",
		"amqp://localhost:5672/":              "amqp://localhost:5672/",
		"amqp://guest@localhost/":             "amqp://guest@localhost/",
		"amqp://guest:s3cret@host:1/v":        "amqp://guest:xxxxx@host:1/v",
		"amqp://guest:s3@cret@host/":          "amqp://xxxxx@host/",
		"amqp://guest:s3/cret@host/":          "amqp://xxxxx@host/",
		"amqp://guest:1#s3cret@host/":         "amqp://xxxxx@host/",
		"amqp://guest:1?s3cret@host/":         "amqp://xxxxx@host/",
		"amqp://guest:1/s3cret@host/":         "amqp://xxxxx@host/",
		"amqp://guest:%zzs3cret@host/":        "amqp://xxxxx@host/",
		"amqp://guest:s3cret":                 "amqp://xxxxx",
		"guest:s3cret@host":                   "xxxxx@host",
		"guest:s3cret":                        "xxxxx",
		"embedded://":                         "embedded://",
		"sqlite:a/b.db":                       "sqlite:a/b.db",
		"sqlite://guest:s3cret@host":          "sqlite://guest:xxxxx@host",
		"amqps://h/?password=s3cret&a=b":      "amqps://h/?password=xxxxx&a=b",
		"amqps://h/?p%61ssword=s3cret":        "amqps://h/?p%61ssword=xxxxx",
		"amqps://a@b@h/?certpassword=s3cret&": "amqps://xxxxx@h/",
		"amqps://h/?heartbeat=5":              "amqps://h/?heartbeat=5",

		"https://h/a/b?code=s3cret&key=s3cret":             "https://h/a/b?code=xxxxx&key=xxxxx",
		"https://h/?sig=s3cret&X-Amz-Signature=s3cret&v=2": "https://h/?sig=xxxxx&X-Amz-Signature=xxxxx&v=xxxxx",
		"https://h/?s3cret":                                "https://h/?xxxxx",
		"https://u:s3cret@h/?a=b&&":                        "https://u:xxxxx@h/?a=xxxxx&&",
	} {
		if got := NewURL(url).String(); got != want {
			t.Errorf("%s is shown as %s, want %s", url, got, want)
		}
	}
}

func TestNoWayOfPrintingShowsAPassword(t *testing.T) {
	u := NewURL("amqp://guest:s3cret@host/")
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
		fmt.Fprintf(&out, verb+verb+"\n", u, AMQP{URL: u})
	}
	logger := slog.New(slog.NewJSONHandler(&out, nil))
	logger.Info("connecting", "url", u, "config", AMQP{URL: u})
	slog.New(slog.NewTextHandler(&out, nil)).Info("connecting", "url", u, "config", AMQP{URL: u})
	if err := json.NewEncoder(&out).Encode(Config{AMQP: AMQP{URL: u}}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "s3cret") || !strings.Contains(out.String(), "guest:xxxxx@host") {
		t.Error(out.String())
	}
}

// A configuration with any mistake is listed, and its mistakes are reported,
// without its passwords.
func TestNoPasswordInMistakesOrDescription(t *testing.T) {
	const secret = "s3cret"
	url := "://guest:" + secret + "@host"
	for _, key := range Keys() {
		for _, scheme := range []string{"amqp", "http", "gopher", "", "[", "{"} {
			_, err := Load(Sources{Environ: []string{key.Variable() + "=" + scheme + url}})
			rejectSecret(t, secret, err)
			_, err = Load(Sources{Flags: map[string]string{key.Name: scheme + url, key.Name + scheme + url: ""}})
			rejectSecret(t, secret, err)
		}
	}
	c := load(t, "routes: [{queue: a, handler: {http: {url: http"+url+"}}}]", []string{
		"WATERSHIP_AMQP_URL=amqp" + url, "WATERSHIP_AMQP_MANAGEMENT_URL=http" + url, "WATERSHIP_STORE_URL=http" + url,
	}, nil)
	rejectSecret(t, secret, fmt.Errorf("%v %+v %#v", c.Describe(), c, c))
}

func rejectSecret(t *testing.T, secret string, err error) {
	t.Helper()
	if err != nil && strings.Contains(err.Error(), secret) {
		t.Errorf("shows the password: %v", err)
	}
}

// The listing of a handler has the fields of its templates, and nothing of the text in a
// query or a header, which may be a secret.
func TestDescribeTemplates(t *testing.T) {
	c := load(t, `routes:
- queue: a
  handler: {http: {url: "https://{headers.host}.example.com:8443/{type}/{body.json.id}?key=s3cret&a={type}&{exchange}", hosts: ["*"], set_headers: {X-A: "s3cret {headers.token}{type}"}}}
- queue: b
  handler: {http: {url: "https://u:s3cret@h/{type}/{type}"}}
- queue: c
  handler: {http: {url: "{headers.url}", hosts: ["*"]}}
`, nil, nil)
	var got []string
	for _, s := range c.Describe() {
		if strings.Contains(s.Key, ".url") || strings.Contains(s.Key, ".set_headers") {
			got = append(got, s.Value)
		}
	}
	want := []string{
		"amqp://guest:xxxxx@localhost:5672/", "http://localhost:9200",
		"https://{headers.host}.example.com:8443/{type}/{body.json.id}?key=xxxxx&a=xxxxx&xxxxx", "xxxxx{headers.token}{type}",
		"https://u:xxxxx@h/{type}/{type}", "{headers.url}",
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Texts that hold several URLs or hosts in a form that is not read as a list.
func TestWrongListsOfServersAreRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	const form = "for a cluster the whole URL of each node: as a list in the file, with commas between in a variable or a flag"
	for _, list := range []string{
		"amqp://guest:s3cret@r1:5672,r2:5672/", "amqp://r1/ amqp://guest:s3cret@r2/", "amqp://guest:s3cret@r1:5672/;amqp://guest:s3cret@r2/",
	} {
		_, err := Load(Sources{Environ: []string{"WATERSHIP_AMQP_URL=" + list}})
		rejectSecret(t, "s3cret", err)
		if text := fmt.Sprint(err); strings.Count(text, "\n") > 0 || !strings.Contains(text, "amqp.url") || !strings.Contains(text, "expected one URL such as amqp://user:password@host:port, or "+form) {
			t.Errorf("%s: %v", list, err)
		}
	}
	for key, scheme := range map[string]string{"amqp.url": "amqp", "amqp.management_url": "http", "store.url": "https"} {
		write(t, "w.yaml", fmt.Sprintf("%s: '%[2]s://u:s3cret@e1:9200,%[2]s://u:s3cret@e2:9200'", key, scheme))
		_, err := Load(Sources{File: "w.yaml"})
		rejectSecret(t, "s3cret", err)
		if !strings.Contains(fmt.Sprint(err), form) {
			t.Error(key, err)
		}
	}
	_, err := Load(Sources{Environ: []string{"WATERSHIP_AMQP_URL=amqp://guest:1/s3cret@host/"}})
	rejectSecret(t, "s3cret", err)
	if !strings.Contains(fmt.Sprint(err), "with / in the password written as %2F") {
		t.Error(err)
	}
	if _, err := Load(Sources{Environ: []string{"WATERSHIP_AMQP_URL=amqp://guest:a,b@host/v%2Cw%40x", "WATERSHIP_STORE_URL=http://u:a,b@host"}}); err != nil {
		t.Error(err)
	}
}

// Nodes of one cluster are reached with one login, in one virtual host, in one way.
func TestNodesThatDifferAreRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	for list, want := range map[string]string{
		"[]": "expected at least one URL",
		"['amqp://u:s3cret@r1/a', 'amqp://u:s3cret@r2/b']":                   "amqp.url[1]",
		"['amqp://u:s3cret@r1', 'amqp://v:s3cret@r2']":                       "amqp.url[1]",
		"['amqp://u:s3cret@r1', 'amqp://u:0s3cret@r2']":                      "differ in host and port only",
		"['amqp://u:s3cret@r1', 'amqps://u:s3cret@r2']":                      "differ in host and port only",
		"['amqp://u:s3cret@r1?heartbeat=5', 'amqp://u:s3cret@r2']":           "differ in host and port only",
		"['amqp://u:s3cret@r1', 'amqp://u:s3cret@r2', 'amqp://u:s3cret@r1']": "amqp.url[2]",
		"['amqp://u:s3cret@r1', 'amqp://u:s3cret@r1']":                       "expected each node once",
		"['embedded://', 'amqp://u:s3cret@r1']":                              "expected one value, and no list",
		"['amqp://u:s3cret@r1', 'amqp://u:s3cret@r2,amqp://u:s3cret@r3']":    "expected one URL such as",
		"['u:s3cret', 'amqp://u:s3cret@r2']":                                 "amqp.url[0]",
		"['amqp://u:s3cret@r1', {x: 'amqp://u:s3cret@r2'}]":                  "expected one value",
	} {
		write(t, "w.yaml", "amqp.url: "+list)
		_, err := Load(Sources{File: "w.yaml"})
		rejectSecret(t, "s3cret", err)
		if !strings.Contains(fmt.Sprint(err), want) || strings.Count(fmt.Sprint(err), "\n") > 0 {
			t.Errorf("%s: %v", list, err)
		}
	}
	write(t, "w.yaml", "store.url: [https://u:s3cret@e1:9200, 'sqlite:a.db']")
	if _, err := Load(Sources{File: "w.yaml"}); !strings.Contains(fmt.Sprint(err), "expected one value, and no list") {
		t.Error(err)
	}
}

// A list is read from every source, and hides the password of each URL.
func TestNodesOfServers(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "w.yaml", `amqp:
  url: ['amqps://u:s3,cret@r1/v', 'amqps://u:s3,cret@r2:5000/v']
store: {url: ['https://u:s3cret@e1:9200/es', 'https://u:s3cret@e2:9200/es']}
`)
	var out bytes.Buffer
	for place, sources := range map[string]Sources{
		"file": {File: "w.yaml"},
		"variables": {Environ: []string{
			"WATERSHIP_AMQP_URL=amqps://u:s3,cret@r1/v, amqps://u:s3,cret@r2:5000/v",
			"WATERSHIP_STORE_URL=https://u:s3cret@e1:9200/es,https://u:s3cret@e2:9200/es",
		}},
		"flags": {Flags: map[string]string{
			"amqp.url":  "amqps://u:s3,cret@r1/v,amqps://u:s3,cret@r2:5000/v",
			"store.url": "https://u:s3cret@e1:9200/es,https://u:s3cret@e2:9200/es",
		}},
	} {
		c, err := Load(sources)
		if err != nil {
			t.Errorf("%s: %v", place, err)
			continue
		}
		got := []any{c.AMQP.URL.Reveal(), c.AMQP.URL.Nodes(), c.AMQP.ManagementURL.RevealAll(), c.Store.URL.RevealAll()}
		want := []any{
			"amqps://u:s3,cret@r1/v",
			[]string{"r2:5000"},
			[]string{"https://u:s3,cret@r1:15671", "https://u:s3,cret@r2:15671"},
			[]string{"https://u:s3cret@e1:9200/es", "https://u:s3cret@e2:9200/es"},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", place, diff)
		}
		fmt.Fprintf(&out, "%v %+v %#v %v\n", c.Describe(), c, c, c.AMQP.URL)
		slog.New(slog.NewTextHandler(&out, nil)).Info("connecting", "url", c.AMQP.URL)
	}
	for _, want := range []string{"amqps://u:xxxxx@r1/v, amqps://u:xxxxx@r2:5000/v", "https://u:xxxxx@r1:15671, https://u:xxxxx@r2:15671"} {
		if strings.Count(out.String(), want) < 3 {
			t.Errorf("%s is not shown", want)
		}
	}
	if strings.Contains(out.String(), "s3") {
		t.Error("shows a password")
	}
}
