package alerts_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/httpapi"
	"github.com/watershipmq/watership/internal/operate/alerts"
	"github.com/watershipmq/watership/internal/operate/alerts/notice"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/retry"
)

// Rules that are loaded while serve runs are evaluated, and mistakes in them change nothing. A
// caller who is limited to queues sees their alerts alone.
func TestReload(t *testing.T) {
	told := make(chan notice.Notice, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var n notice.Notice
		if err := json.NewDecoder(r.Body).Decode(&n); err != nil {
			t.Error(err)
		}
		told <- n
	}))
	defer receiver.Close()
	a := start(t)
	loaded := make(chan config.Alerts, 1)
	s, err := server.New(t.Context(), a, server.Config{
		Reload: func() (config.Config, error) {
			changed := a.Settings()
			changed.Alerts = <-loaded
			return changed, nil
		},
		Routes: []pipeline.Route{{Queue: "orders", Handler: func(*message.Message) ([]*message.Message, error) {
			return nil, retry.Permanent(errors.New("no stock"))
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	reload := func(settings config.Alerts) error {
		loaded <- settings
		_, err := s.Reload(t.Context())
		return err
	}
	handler := httpapi.New(a, s)
	serve(t, s, server.Faces{API: handler})
	publisher, err := a.Publisher(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := publisher.Publish(t.Context(), rabbit.Message{RoutingKey: "orders", Publishing: amqp.Publishing{Body: []byte("1")}}); err != nil {
		t.Fatal(err)
	}
	settings := config.Alerts{
		Interval: 100 * time.Millisecond, GroupInterval: 100 * time.Millisecond, RepeatInterval: time.Hour,
		Rules:     []config.AlertRule{{Name: "many", On: notice.OnPoisoned, Within: time.Hour, Severity: "critical"}},
		Receivers: []config.AlertReceiver{{Name: "hook", Webhook: config.AlertWebhook{URL: config.NewURL(receiver.URL), ContentType: "application/json"}}},
	}
	if err := reload(settings); err != nil {
		t.Fatal(err)
	}
	if n := rabbittest.Receive(t, told); n.Receiver != "hook" || len(n.Alerts) != 1 || n.Alerts[0].Summary != "1 failure in 1h of queue orders" {
		t.Errorf("%+v", n)
	}
	for queue, want := range map[string]int{"": 1, "orders": 1, "mails": 0} {
		got := list(t, handler, queue)
		if len(got.Alerts) != want || (len(got.Receivers) == 1) != (queue == "") {
			t.Errorf("limited to %q: %+v", queue, got)
		}
	}

	wrong := settings
	wrong.Rules = []config.AlertRule{{Name: "many", On: notice.OnPoisoned, Query: "no such field: 1"}}
	var mistake system.InputError
	if err := reload(wrong); !errors.As(err, &mistake) || !strings.Contains(err.Error(), "alerts.rules[0].query") {
		t.Errorf("a wrong query: %v", err)
	}
	settings.Rules = nil
	if err := reload(settings); err != nil {
		t.Fatal(err)
	}
	if n := rabbittest.Receive(t, told); n.Status != notice.Resolved {
		t.Errorf("%+v", n)
	}
}

func start(t *testing.T) *system.System {
	t.Helper()
	cfg, err := config.Load(config.Sources{Environ: []string{
		"WATERSHIP_AMQP_URL=" + config.Embedded, "WATERSHIP_AMQP_LISTEN=127.0.0.1:0", "WATERSHIP_HTTP_LISTEN=127.0.0.1:0", "WATERSHIP_INDEX_BATCH_WAIT=10ms",
		"WATERSHIP_STORE_URL=sqlite:" + filepath.Join(t.TempDir(), "store.db"), "WATERSHIP_DATA=" + t.TempDir(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	a, err := system.Start(t.Context(), system.Config{Settings: cfg, Name: "test", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// serve runs a server until the test ends, and waits until it is ready.
func serve(t *testing.T, s *server.Server, faces server.Faces) {
	t.Helper()
	ready, ended := make(chan bool), make(chan error, 1)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	faces.Run = func(ctx context.Context) error {
		for s.Ready(ctx) != nil && ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		close(ready)
		<-ctx.Done()
		return nil
	}
	go func() { ended <- s.Run(ctx, faces) }()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-ended, s.Close()); err != nil {
			t.Error(err)
		}
	})
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
}

// list returns what the API lists for a viewer who is limited to a queue; "": to none.
func list(t *testing.T, handler http.Handler, queue string) (v alerts.Alerts) {
	t.Helper()
	viewer := access.Identity{Name: "vic", Role: access.Viewer}
	if queue != "" {
		viewer.Queues = []string{queue}
	}
	request := httptest.NewRequestWithContext(access.NewContext(t.Context(), viewer), http.MethodGet, "/api/v1/alerts", nil)
	response := httptest.NewRecorder()
	handler.ServeHTTP(response, request)
	if err := json.NewDecoder(response.Body).Decode(&v); err != nil || response.Code != http.StatusOK {
		t.Fatalf("%d: %v", response.Code, err)
	}
	return v
}
