package cli

import (
	"regexp"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/operation/access"
)

// A failure and an error by hand are explained with their rule and their schedule, the same on
// the servers and through the API.
func TestExplain(t *testing.T) {
	t.Parallel()
	w := newWithServe(t)
	w.fail(t, "acme", "1", 1)
	failed := w.Search(t, "action: poisoned")[0].EventID
	w.Process.Stop(t)
	w.Environ = append(w.Environ, `WATERSHIP_RETRY_RULES=[{name: no-stock, text: "no stock", class: stock}, {name: gold, headers: {tier: gold}, class: urgent}]`,
		`WATERSHIP_RETRY_POLICIES={default: {delays: [1h, 2h], give_up_after: 4h, classes: {stock: {delays: [5m]}, urgent: {delays: []}}}}`)
	w.Process = w.Serve(t)
	viewer := w.token(t, "vic", access.Viewer, false)
	times := regexp.MustCompile(`\d\d\d\d-\d\d-\d\d[T ][0-9:.]+Z?`)
	for _, test := range []struct {
		args []string
		want []string
	}{
		{[]string{"--error", "StockError: no stock of 42", "--queue", "orders"}, []string{
			"type      StockError", "class     stock, by rule no-stock", "attempt   1 of 2 failed", "then      retried after 5m", "attempt 2", "given up",
		}},
		{[]string{"--error", "x", "--queue", "orders", "--header", "tier=gold"}, []string{"class     urgent, by rule gold", "then      poison: failed 1 of 1 attempts"}},
		{[]string{"--error", "x", "--queue", "orders", "--class", "stock", "-o", "json"}, []string{`"class": "stock"`, `"delay_seconds": 300`}},
		{[]string{"--error", "x", "--queue", "nosuch"}, []string{"queue     nosuch\n          no route has this queue: the default policy counts\n"}},
		{[]string{"--error", "x"}, []string{"expected the queue of the error"}},
		{[]string{"id", "--error", "x"}, []string{"expected either the id of a message, or an error"}},
		{[]string{"nobody"}, []string{"nobody"}},
		{[]string{failed}, []string{"message   " + failed + "\n", "answered 422", "then      poison: permanent, by the answer 422 Unprocessable Entity\n"}},
		{[]string{"--error", "x", "--queue", "orders", "--attempt", "10001"}, []string{"attempt 10001: expected 1 to 10000"}},
		{[]string{"--error", "x", "--queue", "orders", "--attempt", "0"}, []string{"attempt 0: expected 1 to 10000"}},
	} {
		args := append([]string{"explain"}, test.args...)
		got := w.Run(t, args...)
		for _, want := range test.want {
			if !strings.Contains(got.Out+got.Err, want) {
				t.Errorf("%q: there is no %q in\n%s", args, want, got.Out+got.Err)
			}
		}
		remote := w.through(t, viewer, args...)
		if times.ReplaceAllString(remote.Out, "T") != times.ReplaceAllString(got.Out, "T") || remote.Code != got.Code || remote.Err != got.Err {
			t.Errorf("%q through the API: %+v, want %+v", args, remote, got)
		}
	}
}
