package cli

import (
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/operate/alerts/notice"
	"github.com/watershipmq/watership/internal/server/servertest"
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
	failing := servertest.NewService(t, func(servertest.Post, int) int { return http.StatusBadRequest })
	n, i := newNotices(t), servertest.InstallEmbedded(t, failing.URL)
	i.Environ = append(os.Environ(), alertSettings(n.url)...)
	i.Serve(t)
	awaitAlerts(t, i)
	i.Must(t, "publish", "--exchange", i.Exchange, "--key", "order.created", servertest.WriteFile(t, "order.json", `{"order": 1}`))
	n.await(t, "fresh", notice.Firing)
	var known []string // serve exports some only when they are needed
	operations, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range regexp.MustCompile("`(watership_[a-z_]+)`").FindAllStringSubmatch(string(operations), -1) {
		known = append(known, name[1])
	}
	var metrics string
	servertest.Until(t, "the notice to be counted", func() bool {
		metrics = scrapeText(t, i)
		return strings.Contains(metrics, `watership_alerts_notices_total{receiver="hook",result="taken"}`)
	})
	check := exec.CommandContext(t.Context(), checker, "-rules", "../../deploy/prometheus/rules.yml", "-tests", "../../deploy/prometheus/rules.test.yml",
		"-dashboard", "../../deploy/grafana/dashboard.json", "-known", strings.Join(known, ","))
	check.Stdin = strings.NewReader(metrics)
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
