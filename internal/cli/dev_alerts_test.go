package cli

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/server/servertest"
)

// Whoever is told about a new group of failures opens the link of the notice, and is on the page of the group.
func TestAlertsOfDevelopmentOpenTheirGroup(t *testing.T) {
	told := newNotices(t)
	failing := servertest.NewService(t, func(servertest.Post, int) int { return http.StatusBadRequest })
	route := fmt.Sprintf("WATERSHIP_ROUTES=[{queue: orders, bind: [{exchange: shop, key: '#'}], handler: {http: {url: %q}}}]", failing.URL)
	d := develop(t, append(alertSettings(told.url), "WATERSHIP_TAP_EXCHANGES=[{name: shop, type: topic}]", route), "--empty")
	d.says(t, "Try, in a second terminal")
	console := regexp.MustCompile(`console (http://\S+)`).FindStringSubmatch(d.out.String())[1]
	servertest.Until(t, "the rules to be evaluated", func() bool { // groups from then on are new
		return strings.Contains(read(t, console+"/api/v1/alerts"), `"evaluated"`)
	})
	d.must(t, "echo '{}' | "+d.binary+" publish --exchange shop --key order --message-id order-1")
	told.await(t, "fresh", "firing")
	link := told.all()[0].Alerts[0].Link
	if group, err := url.Parse(link); err != nil || !strings.HasPrefix(link, console+"/failures/groups/") || group.RawQuery != "" {
		t.Fatalf("the link is %q, %v", link, err)
	}
	if page := read(t, link); !strings.Contains(page, "400 Bad Request") || !strings.Contains(page, "order-1") {
		t.Errorf("the page of the link does not have the group: %s", page)
	}
}

// read returns what an address answers.
func read(t *testing.T, address string) string {
	t.Helper()
	response, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v: %s", address, response.Status, err, text)
	}
	return string(text)
}
