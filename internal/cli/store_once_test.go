package cli

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/schemas"
)

// A command opens the store once, however often it reads: each store that is open has
// connections of its own.
func TestReplayOpensTheStoreOnce(t *testing.T) {
	broker := rabbittest.Embedded(t)
	to, err := url.Parse(servertest.StoreURL(t))
	if err != nil {
		t.Fatal(err)
	}
	var opened sync.Map // connections with requests; probes of a store whose answer is late have their own
	store := httputil.NewSingleHostReverseProxy(to)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/_cluster/health" {
			opened.Store(r.RemoteAddr, true)
		}
		store.ServeHTTP(w, r)
	}))
	defer proxy.Close()
	a := newSeeded(t, "WATERSHIP_AMQP_URL="+broker.URL, "WATERSHIP_AMQP_MANAGEMENT_URL="+broker.ManagementURL)
	a.environ = append(a.environ, "WATERSHIP_STORE_URL="+proxy.URL)
	a.keep(t, a.event(1, schemas.Published))
	for name, test := range map[string]struct {
		ids  string
		code int
	}{"nothing is found": {"slip\n", exitFailed}, "a message is found": {"m-1\nslip\n", exitOK}} {
		t.Run(name, func(t *testing.T) {
			opened.Clear()
			r := a.call(t, "replay", "--ids", servertest.WriteFile(t, "ids", test.ids), "--to-queue", "orders", "--unchecked-routes", "--dry-run")
			if r.Code != test.code || !strings.Contains(r.Out, "not found: slip") {
				t.Errorf("%+v", r)
			}
			n := 0
			opened.Range(func(any, any) bool { n++; return true })
			if n != 1 {
				t.Errorf("replay opened %d connections to the store", n)
			}
		})
	}
}
