package main

import (
	"strings"
	"testing"
	"time"
)

func TestCompletion(t *testing.T) {
	p := newest(t)
	queue := p.broker.Queue(t, nil)
	a := aFew(t, p.seed)
	file := writeFile(t, "w.yaml", "tap: {exchanges: [{name: shop, type: topic}]}\nroutes: [{queue: orders, bind: [{exchange: mails}], handler: {http: {url: 'http://x/'}}}]\n")
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
		{"replay|--group|", []string{"no such table: violins"}, ""},
		{"search|action: pois", []string{"action: poisoned"}, "action: handled"},
		{"search|queue: o", []string{"queue: orders"}, ""},
		{"search|queue: " + queue[:9], []string{"queue: " + queue}, ""},
		{"search|error.type: h", nil, "error.type: http"},
		{"search|error.type: \"", []string{`error.type: "http.Status"`}, ""},
		{"search|--fields|event.action,watership.que", []string{"event.action,watership.queue"}, ""},
		{"search|--by|watership.err", []string{"watership.error_group"}, ""},
		{"search|-o|", []string{"table", "csv"}, ""},
		{"publish|--exchange|", []string{"mails", "shop"}, ""},
		{"replay|--to-exchange|amq.t", []string{"amq.topic"}, "amq.direct"},
		{"show|m-", []string{"m-3", "m-2", "m-1"}, ""},
		{"show|m-2", []string{"m-2"}, "m-1"},
	} {
		began := time.Now()
		got := a.call(t, append([]string{"__complete"}, strings.Split(strings.TrimPrefix(test.args, "|"), "|")...)...)
		offered := "\n" + got.out
		for _, want := range test.want {
			if !strings.Contains(offered, "\n"+want+"\n") && !strings.Contains(offered, "\n"+want+"\t") {
				t.Errorf("%s: %q is not offered:\n%s%s", test.args, want, got.out, got.err)
			}
		}
		if test.not != "" && strings.Contains(offered, "\n"+test.not+"\n") {
			t.Errorf("%s: %q is offered", test.args, test.not)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("%s took %s", test.args, took)
		}
	}
	away := []string{"WATERSHIP_STORE_URL=http://127.0.0.1:1", "WATERSHIP_AMQP_URL=amqp://127.0.0.1:1/"}
	if got := call(t.Context(), strings.NewReader(""), away, "__complete", "search", "error.type: "); got.code != exitOK || strings.Contains(got.err, "refused") {
		t.Errorf("without servers: %+v", got)
	}
}

// No colours but on a terminal.
func TestColours(t *testing.T) { inEachStore(t, testColours) }

func testColours(t *testing.T, seed seeder) {
	a := aFew(t, seed)
	if got := a.must(t, "search"); strings.Contains(got, "\x1b") {
		t.Errorf("%q", got)
	}
	if got := (screen{colour: true}).paint("x", red); got != "\x1b[31mx\x1b[0m" {
		t.Errorf("%q", got)
	}
}
