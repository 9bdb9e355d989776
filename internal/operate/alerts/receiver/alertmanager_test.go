package receiver_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// A real Alertmanager takes alerts and their ends, and groups and sends them on.
func TestRealAlertmanager(t *testing.T) {
	binary := os.Getenv("WATERSHIP_TEST_ALERTMANAGER")
	if binary == "" {
		const missing = `WATERSHIP_TEST_ALERTMANAGER is not set (eval "$(scripts/fixtures env)")`
		if os.Getenv("WATERSHIP_TEST_REQUIRED") != "" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	type hook struct {
		Status string
		Alerts []struct {
			Status       string
			Labels       map[string]string
			Annotations  map[string]string
			GeneratorURL string
		}
	}
	hooks := make(chan hook, 10)
	onCall := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var h hook
		if err := json.NewDecoder(r.Body).Decode(&h); err != nil {
			t.Error(err)
		}
		hooks <- h
	}))
	defer onCall.Close()
	address := startAlertmanager(t, binary, onCall.URL)
	r := loaded(t, "alertmanager: {urls: ['"+address+"']}")
	n := example()
	if answer, err := r.Send(t.Context(), n); err != nil || answer != "200 OK" {
		t.Fatalf("%q, %v", answer, err)
	}
	got := rabbittest.Receive(t, hooks)
	for len(got.Alerts) < 2 { // a group is sent at once if its first alert began before group_wait, and again with the second
		got = rabbittest.Receive(t, hooks)
	}
	if len(got.Alerts) != 2 || got.Status != "firing" {
		t.Fatalf("%+v", got)
	}
	if a := got.Alerts[1]; a.Labels["alertname"] != "failures" || a.Labels["team"] != "shop" || a.Labels["class"] != "no <stock>" || a.Status != "firing" ||
		a.Annotations["summary"] != n.Alerts[0].Summary || a.GeneratorURL != n.Alerts[0].Link {
		t.Errorf("%+v", a)
	}
	status := map[string]string{} // of the alerts, as Alertmanager said last: it may send those of one request one by one
	note := func(h hook) {
		for _, a := range h.Alerts {
			status[a.Labels["alertname"]] = a.Status
		}
	}
	note(got)
	ended := time.Now().UTC()
	n.Alerts[0].Status, n.Alerts[0].Ended = "resolved", &ended
	if _, err := r.Send(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	for status["failures"] != "resolved" || status["paused"] != "resolved" {
		got = rabbittest.Receive(t, hooks)
		note(got)
	}
	if got.Status != "resolved" {
		t.Errorf("%+v", got)
	}
}

// startAlertmanager starts a server that sends each group after a second, and returns its URL.
func startAlertmanager(t *testing.T, binary, to string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	file := write(t, fmt.Sprintf("route: {receiver: ops, group_by: [source], group_wait: 1s, group_interval: 1s}\nreceivers: [{name: ops, webhook_configs: [{url: '%s'}]}]\n", to))
	server := exec.CommandContext(t.Context(), binary, "--config.file="+file, "--storage.path="+t.TempDir(), "--web.listen-address="+address, "--cluster.listen-address=")
	var log bytes.Buffer
	server.Stdout, server.Stderr = &log, &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	for deadline := time.Now().Add(rabbittest.Timeout); ; time.Sleep(50 * time.Millisecond) {
		response, err := http.Get("http://" + address + "/-/ready")
		if err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return "http://" + address
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("Alertmanager is not ready: %v\n%s", err, log.String())
		}
	}
}
