package console_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/net/html"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/console"
	"github.com/watershipmq/watership/internal/httpapi"
	"github.com/watershipmq/watership/internal/operate/transfer"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/server"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// served is a running server on an embedded broker and store, with the console. The
// exchange shop is tapped, and messages with keys such as order.placed go to the queue
// orders, whose handler fails for good while the system is broken.
type served struct {
	*system.System
	api    operation.Via
	url    string
	broken *atomic.Bool
}

// newSystem starts a system with more settings, as environment variables. With WATERSHIP_AMQP_URL it is
// on that broker.
func newSystem(t testing.TB, settings ...string) served {
	t.Helper()
	return newLoggingSystem(t, slog.New(slog.DiscardHandler), settings...)
}

// newLoggingSystem is newSystem with a logger.
func newLoggingSystem(t testing.TB, logger *slog.Logger, settings ...string) served {
	t.Helper()
	if !slices.ContainsFunc(settings, func(s string) bool { return strings.HasPrefix(s, "WATERSHIP_AMQP_URL=") }) {
		settings = append(settings, "WATERSHIP_AMQP_URL="+config.Embedded, "WATERSHIP_AMQP_LISTEN=127.0.0.1:0")
	}
	environ := append([]string{
		"WATERSHIP_HTTP_LISTEN=127.0.0.1:0",
		"WATERSHIP_STORE_URL=sqlite:" + filepath.Join(t.TempDir(), "store.db"), "WATERSHIP_DATA=" + t.TempDir(),
	}, settings...)
	cfg, err := config.Load(config.Sources{Environ: environ})
	if err != nil {
		t.Fatal(err)
	}
	a, err := system.Start(t.Context(), system.Config{Settings: cfg, Name: "test", Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	s := served{System: a, broken: new(atomic.Bool)}
	made, err := server.New(t.Context(), a, server.Config{
		Reload: func() (config.Config, error) { return config.Load(config.Sources{Environ: environ}) },
		Taps:   []pipeline.Tap{{Exchange: "shop", Type: "topic"}},
		Routes: []pipeline.Route{{Queue: "orders", Bind: []pipeline.Binding{{Exchange: "shop", Key: "order.#"}}, Handler: s.handle}},
	})
	if err != nil {
		t.Fatal(err)
	}
	handler := httpapi.New(a, made)
	s.api = handler
	pages, err := console.New(console.Config{API: handler, Version: "test", Stream: cfg.Store.Stream, Trace: cfg.Traces.Page, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	ready, ended := make(chan string, 1), make(chan error, 1)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	go func() {
		ended <- made.Run(ctx, server.Faces{
			API: handler, Pages: pages,
			Run: func(ctx context.Context) error {
				for made.Ready(ctx) != nil && ctx.Err() == nil {
					time.Sleep(10 * time.Millisecond)
				}
				ready <- "http://" + made.Address().String()
				<-ctx.Done()
				return nil
			},
		})
	}()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-ended, a.Close()); err != nil {
			t.Error(err)
		}
	})
	select {
	case s.url = <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	return s
}

// eachStore runs a test on a system with each of the stores.
func eachStore(t *testing.T, test func(t *testing.T, s served)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) { test(t, newSystem(t)) })
	t.Run("elasticsearch", func(t *testing.T) {
		store := os.Getenv("WATERSHIP_TEST_STORE_URL")
		if store == "" {
			t.Skip("WATERSHIP_TEST_STORE_URL is not set")
		}
		stream := fmt.Sprint("test-console-", time.Now().UnixNano())
		t.Cleanup(func() { deleteStreams(t, store, stream) })
		test(t, newSystem(t, "WATERSHIP_STORE_URL="+store, "WATERSHIP_STORE_STREAM="+stream))
	})
}

func (s served) handle(msg *message.Message) ([]*message.Message, error) {
	if s.broken.Load() && strings.HasPrefix(msg.UUID, "patient-") {
		return nil, retry.After(time.Hour, fmt.Errorf("no table for order %s", msg.UUID))
	}
	if s.broken.Load() && strings.HasPrefix(msg.UUID, "traced-") {
		return nil, fmt.Errorf("no table for order %s", msg.UUID)
	}
	if s.broken.Load() {
		return nil, retry.Permanent(fmt.Errorf("no table for order %s", msg.UUID))
	}
	return nil, nil
}

// publish publishes an order with a message id and headers, and waits for its confirm.
func (s served) publish(t *testing.T, id, body string, headers amqp.Table) {
	t.Helper()
	publisher, err := s.Publisher(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	e := schemas.Envelope{
		Exchange: "shop", RoutingKey: "order.placed", Headers: headers, Body: []byte(body),
		Properties: schemas.Properties{MessageID: id, ContentType: "application/json", DeliveryMode: amqp.Persistent},
	}
	if err := publisher.Publish(t.Context(), transfer.NewMessage(e)); err != nil {
		t.Fatal(err)
	}
}

// await waits until n events match a query.
func (s served) await(t *testing.T, n int64, query string) {
	t.Helper()
	count := 0
	if !rabbittest.Poll(rabbittest.Timeout, func() bool { count = s.count(t, query); return int64(count) >= n }) {
		t.Fatalf("%d events match %s, want %d", count, query, n)
	}
}

// document is a page that the console sent.
type document struct {
	*http.Response
	text string
}

// get reads a page, and follows redirects.
func (s served) get(t testing.TB, path string, headers ...string) document {
	t.Helper()
	return s.do(t, http.MethodGet, path, nil, headers...)
}

// post sends a form as a browser does.
func (s served) post(t *testing.T, path string, form url.Values) document {
	t.Helper()
	return s.do(t, http.MethodPost, path, form, "Content-Type", "application/x-www-form-urlencoded", "Origin", s.url)
}

func (s served) do(t testing.TB, method, path string, form url.Values, headers ...string) document {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	got, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	return document{got, string(text)}
}

// want checks the status of a page, and that it has some texts, with tags left out.
func (d document) want(t testing.TB, status int, texts ...string) {
	t.Helper()
	if d.StatusCode != status {
		t.Errorf("%s %s: %s, want %d\n%s", d.Request.Method, d.Request.URL, d.Status, status, d.words(t))
		return
	}
	words := d.words(t)
	for _, text := range texts {
		if !strings.Contains(words, text) {
			t.Errorf("%s has no %q:\n%s", d.Request.URL, text, words)
		}
	}
}

// words are the texts of a page, with single blanks.
func (d document) words(t testing.TB) string {
	t.Helper()
	var words []string
	tokens := html.NewTokenizer(strings.NewReader(d.text))
	for {
		switch tokens.Next() {
		case html.ErrorToken:
			return strings.Join(words, " ")
		case html.TextToken:
			words = append(words, strings.Fields(string(tokens.Text()))...)
		}
	}
}

// events returns the events of a query.
func (s served) events(t *testing.T, query string) (all []schemas.Event) {
	t.Helper()
	node, err := s.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	store, err := s.Store(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range store.Events(t.Context(), eventstore.Selection{Query: node}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}
