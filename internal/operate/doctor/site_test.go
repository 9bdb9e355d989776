package doctor

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/operate/routes"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/schemas"
)

// site is a System on an embedded broker and store with what doctor checks of it.
type site struct {
	Config
	system  *system.System
	broker  rabbittest.Broker
	channel *amqp.Channel
}

// newSite returns a site on which nothing is set up.
func newSite(t *testing.T, environ ...string) *site {
	t.Helper()
	t.Parallel() // most of it is waiting
	sys, broker := systemtest.Embedded(t, environ...)
	handlers := routes.Handlers(sys)
	service := routes.Service{System: sys}
	return &site{system: sys, broker: broker, channel: broker.Channel(t), Config: Config{
		Settings: sys.Settings(), Topology: sys.Topology(), Pipeline: handlers, Login: sys.Login(), VHost: sys.VHost(),
		Client: http.DefaultClient, Timeout: 10 * time.Second,
		Files:         func() error { return nil },
		Connect:       func(ctx context.Context) (*rabbit.Connection, error) { return sys.Dial(ctx) },
		Management:    sys.Management,
		OpenStore:     func(ctx context.Context) (Store, error) { return sys.Store(ctx) },
		Ready:         func(context.Context) (string, error) { return "", nil },
		Routes:        func(ctx context.Context) ([]routes.RouteState, error) { return service.States(ctx, false) },
		Subscriptions: sys.Subscriptions,
	}}
}

// newSetUpSite returns a site whose topology is declared.
func newSetUpSite(t *testing.T, environ ...string) *site {
	t.Helper()
	s := newSite(t, environ...)
	s.setUp(t)
	return s
}

func (s *site) setUp(t *testing.T) {
	t.Helper()
	if err := pipeline.Declare(t.Context(), s.Pipeline); err != nil {
		t.Fatal(err)
	}
}

// limits returns the findings of Limits.
func (s *site) limits(t *testing.T) []Finding {
	t.Helper()
	list, err := Limits(t.Context(), s.Config)
	must(t, err)
	return list
}

// savePolicy creates or replaces a policy.
func (s *site) savePolicy(t *testing.T, p rabbit.Policy) {
	t.Helper()
	management, err := s.Management()
	must(t, err)
	must(t, management.SavePolicy(t.Context(), s.VHost, p))
}

// must fails the test on an error of the broker.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// answer has the management API answer a path with a JSON text. Other paths are answered as before.
func (s *site) answer(t *testing.T, path, body string) {
	t.Helper()
	s.intercept(t, path, func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { _, _ = w.Write([]byte(body)) })
}

// delay has the management API list the queues as they were before their messages and consumers.
func (s *site) delay(t *testing.T) {
	t.Helper()
	management, err := s.Management()
	must(t, err)
	queues, err := management.Queues(t.Context(), s.VHost)
	must(t, err)
	for i := range queues {
		queues[i].Messages, queues[i].Consumers = 0, 0
	}
	body, err := json.Marshal(queues)
	must(t, err)
	s.answer(t, "queues/%2F", string(body))
}

// connectTo has doctor connect to a broker at a URL.
func (s *site) connectTo(t *testing.T, url string) {
	t.Helper()
	conn, err := rabbit.Open(rabbit.Config{URL: url, Name: "doctor"})
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	s.Connect = func(context.Context) (*rabbit.Connection, error) { return conn, nil }
}

// eventuallyHolds waits until a queue holds some messages, consumed ones included.
func (s *site) eventuallyHolds(t *testing.T, queue string, messages int) {
	t.Helper()
	management, err := s.Management()
	must(t, err)
	rabbittest.Eventually(t, "the messages to arrive", func() bool {
		q, err := management.Queue(t.Context(), s.VHost, queue)
		return err == nil && q.Messages == int64(messages)
	})
}

// count counts the requests for a path of the management API.
func (s *site) count(t *testing.T, path string) *atomic.Int32 {
	t.Helper()
	n := &atomic.Int32{}
	s.intercept(t, path, func(w http.ResponseWriter, r *http.Request, broker http.Handler) {
		n.Add(1)
		broker.ServeHTTP(w, r)
	})
	return n
}

// intercept has handle answer the requests for a path of the management API, in front of the broker.
func (s *site) intercept(t *testing.T, path string, handle func(http.ResponseWriter, *http.Request, http.Handler)) {
	t.Helper()
	address, err := url.Parse(s.broker.ManagementURL)
	must(t, err)
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = address.Scheme, address.Host, address.Host
	}}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.TrimPrefix(r.URL.EscapedPath(), "/api/") == path {
			handle(w, r, forward)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	there, err := url.Parse(proxy.URL)
	must(t, err)
	there.User = address.User
	s.broker.ManagementURL = there.String() // a further answer is in front of this one
	s.Management = func() (*rabbit.Management, error) { return rabbit.NewManagement(there.String(), nil) }
}

// of returns the findings of one check, in order.
func of(check string, findings []Finding) []Finding {
	return slices.DeleteFunc(slices.Clone(findings), func(f Finding) bool { return string(f.Check) != check })
}

// want checks that a finding has a verdict, a part of the detail and a part of the remedy.
func want(t *testing.T, findings []Finding, v Verdict, detail, remedy string) {
	t.Helper()
	for _, f := range findings {
		if isOK := f.Code == NoProblem; isOK != (f.Verdict == OK) || !isOK && f.Code.check() != f.Check {
			t.Errorf("the code is of another check or verdict: %+v", f)
		}
		if f.Verdict == v && strings.Contains(f.Detail, detail) && strings.Contains(f.Instruction(), remedy) {
			return
		}
	}
	t.Errorf("no %s with %q and the remedy %q in\n%s", v, detail, remedy, text(findings))
}

// wantNone checks that no finding has a part of a detail.
func wantNone(t *testing.T, findings []Finding, detail string) {
	t.Helper()
	for _, f := range findings {
		if strings.Contains(f.Detail, detail) {
			t.Errorf("%+v", f)
		}
	}
}

func text(findings []Finding) string {
	var b strings.Builder
	for _, f := range findings {
		b.WriteString(string(f.Verdict) + " " + string(f.Check) + ": " + f.Detail + " -> " + f.Instruction() + "\n")
	}
	return b.String()
}

// settings returns a configuration of environment variables.
func settings(t *testing.T, environ ...string) config.Config {
	t.Helper()
	cfg, err := config.Load(config.Sources{Environ: environ})
	must(t, err)
	return cfg
}

// listing returns a doctor without servers, with the queues that RabbitMQ would list.
func listing(t *testing.T, cfg config.Config, queues ...rabbit.Queue) *doctor {
	t.Helper()
	d := newDoctor(Config{Settings: cfg, VHost: "/", Login: "guest"})
	d.version, d.queues = "4.3.0", map[string]rabbit.Queue{}
	for _, queue := range queues {
		d.queues[queue.Name] = queue
	}
	return d
}

// names of the default prefix.
func names() schemas.Topology { return schemas.Topology{} }
