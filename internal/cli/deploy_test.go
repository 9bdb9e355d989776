package cli

import (
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/operate/alerts/notice"
)

// Each query of the rules and of the dashboard in deploy is one that Prometheus understands,
// about metrics that serve exports; each rule fires in its test, and panels show something.
func TestDeployedQueries(t *testing.T) {
	t.Parallel()
	checker := os.Getenv("WATERSHIP_TEST_PROMCHECK")
	if checker == "" {
		const missing = `WATERSHIP_TEST_PROMCHECK is not set (eval "$(scripts/fixtures env)")`
		if os.Getenv("WATERSHIP_TEST_REQUIRED") != "" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	failing := newService(t, func(post, int) int { return http.StatusBadRequest })
	n, i := newNotices(t), installEmbedded(t, failing.url)
	i.environ = append(os.Environ(), alertSettings(n.url)...)
	i.serve(t)
	i.awaitAlerts(t)
	i.must(t, "publish", "--exchange", i.exchange, "--key", "order.created", writeFile(t, "order.json", `{"order": 1}`))
	n.await(t, "fresh", notice.Firing)
	var known []string // serve exports some only when they are needed
	operations, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range regexp.MustCompile("`(watership_[a-z_]+)`").FindAllStringSubmatch(string(operations), -1) {
		known = append(known, name[1])
	}
	var metrics string
	until(t, "the notice to be counted", func() bool {
		metrics = i.scrapeText(t)
		return strings.Contains(metrics, `watership_alerts_notices_total{receiver="hook",result="taken"}`)
	})
	check := exec.CommandContext(t.Context(), checker, "-rules", "../../deploy/prometheus/rules.yml", "-tests", "../../deploy/prometheus/rules.test.yml",
		"-dashboard", "../../deploy/grafana/dashboard.json", "-known", strings.Join(known, ","))
	check.Stdin = strings.NewReader(metrics)
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
