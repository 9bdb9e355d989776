package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

func TestTheRemedyOfABrokerThatLetsNobodyIn(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"nothing answers": {errors.New("connection refused"), "start RabbitMQ, or set amqp.url"},
		"no TLS":          {fmt.Errorf("connecting: %w", tls.RecordHeaderError{Msg: "not TLS"}), "the server does not speak TLS at this port"},
		"no AMQP":         {&amqp.Error{Code: amqp.FrameError}, "the server does not speak AMQP at this port"},
		"another version": {&amqp.Error{Code: amqp.SyntaxError}, "the server does not speak AMQP at this port"},
		"a password":      {&amqp.Error{Code: amqp.AccessRefused}, "correct the user and the password in amqp.url"},
		"a vhost":         {fmt.Errorf("connecting: %w", &amqp.Error{Code: amqp.NotAllowed}), "rabbitmqctl add_vhost shop && rabbitmqctl set_permissions --vhost shop guest"},
		"another refusal": {&amqp.Error{Code: amqp.InternalError}, "start RabbitMQ"},
	} {
		d := listing(t, settings(t))
		d.VHost = "shop"
		if got := d.brokerRemedy(test.err); !strings.Contains(got, test.want) {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// The errors are those of servers that answer: one that speaks HTTP, and a broker that lets nobody in.
func TestTheRemedyIsForWhatTheServerAnswers(t *testing.T) {
	web, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = web.Close() })
	go func() {
		for conn, err := web.Accept(); err == nil; conn, err = web.Accept() {
			_, _ = conn.Read(make([]byte, 8))
			_, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
			_ = conn.Close()
		}
	}()
	port, broker := web.Addr().String(), rabbittest.Embedded(t).URL
	for address, remedy := range map[string]string{
		"amqps://" + port + "/":                                  "the server does not speak TLS at this port",
		"amqp://" + port + "/":                                   "the server does not speak AMQP at this port",
		strings.Replace(broker, "guest:guest", "guest:wrong", 1): "correct the user and the password in amqp.url",
	} {
		t.Run(remedy, func(t *testing.T) {
			s := newSite(t, "WATERSHIP_AMQP_URL="+address)
			want(t, of("broker", Run(t.Context(), s.Config)), Error, "connecting", remedy)
		})
	}
}

func TestTheRemedyOfAManagementAPIThatDoesNotAnswer(t *testing.T) {
	for name, test := range map[string]struct {
		broker, address string
		err             error
		want            string
	}{
		"none":             {"amqp://mq/", "", errors.New("x"), "set amqp.management_url, and give its user the tag monitoring"},
		"another broker":   {"amqp://mq/", "http://guest:guest@mq2:15672", fmt.Errorf("queues: %w", rabbit.ErrNotFound), "the one that answers has no vhost /"},
		"without a login":  {"amqp://mq/", "http://mq:15672", errors.New("login refused (401)"), "amqp.management_url has no login: set it to http://USER:PASSWORD@HOST:PORT"},
		"derived":          {"amqp://guest:guest@mq/", "http://guest:guest@mq:15672", rabbit.ErrNoAnswer, "amqp.management_url is derived from amqp.url"},
		"that is set":      {"amqp://guest:guest@mq/", "http://ann:x@mq:8080", rabbit.ErrNoAnswer, "set amqp.management_url, and give its user"},
		"that is not read": {"amqp://mq/", "http://%zz", errors.New("x"), "set amqp.management_url, and give its user"},
	} {
		d := listing(t, config.Config{})
		d.Settings.AMQP.URL, d.Settings.AMQP.ManagementURL = config.NewURL(test.broker), config.NewURL(test.address)
		got := d.managementRemedy(test.err)
		if !strings.HasPrefix(got, "set amqp.management_url to the API") && !strings.Contains(got, test.want) || !strings.Contains(got, test.want) {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
		if !strings.HasSuffix(got, "doctor cannot look at queues") {
			t.Errorf("%s does not say what is missing: %s", name, got)
		}
	}
}

func TestABrokerThatIsTooOld(t *testing.T) {
	s := newSetUpSite(t)
	s.answer(t, "overview", `{"rabbitmq_version":"3.9.29"}`)
	want(t, of("version", Run(t.Context(), s.Config)), Warning, "RabbitMQ 3.9.29", "Watership is tested with 3.10 and newer")
}

// What doctor would say about another broker's queues is not true of this one's.
func TestTheManagementAPIOfAnotherBroker(t *testing.T) {
	s := newSetUpSite(t)
	s.answer(t, "overview", `{"cluster_name":"other","rabbitmq_version":"4.3.6"}`)
	found := Run(t.Context(), s.Config)
	want(t, of("management", found), Error, "the management API belongs to cluster other, and amqp.url leads to cluster watership@embedded", "set amqp.management_url to the API of the broker of amqp.url")
	if queues := of("queues", found); len(queues) > 0 {
		t.Errorf("queues of the other broker: %v", queues)
	}
}

// The connection that is checked is the one of the cluster that is compared, and one overview has its name.
func TestOneConnectionAndOneOverview(t *testing.T) {
	s := newSetUpSite(t)
	overviews := s.count(t, "overview")
	connect, connections := s.Connect, 0
	s.Connect = func(ctx context.Context) (*rabbit.Connection, error) {
		connections++
		return connect(ctx)
	}
	for name, check := range map[string]func(){
		"doctor":    func() { Run(t.Context(), s.Config) },
		"limits":    func() { s.limits(t) },
		"leftovers": func() { Leftovers(t.Context(), s.Config) },
	} {
		overviews.Store(0)
		connections = 0
		if check(); overviews.Load() != 1 || connections != 1 {
			t.Errorf("%s: %d overviews, %d connections", name, overviews.Load(), connections)
		}
	}
}

// Limits of another broker say nothing about this one.
func TestLimitsWithoutTheBroker(t *testing.T) {
	s := newSetUpSite(t)
	gone := errors.New("connection refused")
	s.Connect = func(context.Context) (*rabbit.Connection, error) { return nil, gone }
	if found, err := Limits(t.Context(), s.Config); !errors.Is(err, gone) {
		t.Errorf("%v\n%s", err, text(found))
	}
}

func TestTheVersionOfTheBroker(t *testing.T) {
	s := newSetUpSite(t)
	want(t, of("version", Run(t.Context(), s.Config)), OK, "RabbitMQ "+s.broker.Version, "")
}

// What doctor declares to try the permissions is gone afterwards.
func TestTryingPermissionsLeavesNothing(t *testing.T) {
	s := newSetUpSite(t)
	want(t, of("permissions", Run(t.Context(), s.Config)), OK, "user guest may configure, write and read watership.*", "")
	management, err := s.Management()
	must(t, err)
	queues, err := management.Queues(t.Context(), "/")
	must(t, err)
	exchanges, err := management.Exchanges(t.Context(), "/")
	must(t, err)
	for _, q := range queues {
		if strings.Contains(q.Name, "doctor") {
			t.Error(q.Name)
		}
	}
	for _, e := range exchanges {
		if strings.Contains(e.Name, "doctor") {
			t.Error(e.Name)
		}
	}
}

func TestAConnectionThatEndsIsNoPermission(t *testing.T) {
	s := newSite(t)
	conn, err := s.Connect(t.Context())
	must(t, err)
	must(t, conn.Close())
	d := newDoctor(s.Config)
	d.conn, d.Timeout = conn, time.Millisecond // it is opened never again
	d.checkPermissions(t.Context())
	want(t, d.findings, Error, "user guest: ", `rabbitmqctl set_permissions --vhost / guest '^(watership\..*)$'`)
}

func TestClocks(t *testing.T) {
	for name, test := range map[string]struct {
		difference time.Duration
		verdict    Verdict
		detail     string
	}{
		"equal":   {0, OK, "the clock of SQLite agrees"},
		"close":   {-4 * time.Second, OK, "the clock of SQLite agrees"},
		"ahead":   {time.Minute, Warning, "the clock of SQLite differs from this machine's by 1m0s"},
		"behind":  {-time.Hour, Warning, "differs from this machine's by -1h0m0s"},
		"of 1970": {-50 * 365 * 24 * time.Hour, Warning, "differs from this machine's by -"},
	} {
		d := listing(t, settings(t))
		d.checkClock("SQLite", time.Now().Add(test.difference).Add(time.Millisecond))
		t.Run(name, func(t *testing.T) { want(t, d.findings, test.verdict, test.detail, "") })
	}
}

func TestTheClockOfTheBrokerIsTheDateOfItsAPI(t *testing.T) {
	at := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", at.Format(http.TimeFormat))
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(server.Close)
	got, err := httpClock(t.Context(), http.DefaultClient, server.URL)
	if err != nil || !got.Equal(at) {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := httpClock(t.Context(), http.DefaultClient, "http://127.0.0.1:1"); err == nil {
		t.Error("nothing answers, and it has a clock")
	}
}

func TestServe(t *testing.T) {
	for name, test := range map[string]struct {
		listen, answer string
		err            error
		verdict        Verdict // "": nothing is said
		detail         string
	}{
		"is not configured":     {"", "", nil, "", ""},
		"does not run":          {"127.0.0.1:1", "", errors.New("connection refused"), "", ""},
		"is ready":              {"127.0.0.1:1", "ready\n", nil, OK, "is ready at 127.0.0.1:1"},
		"is not ready":          {"127.0.0.1:1", "store: away", errors.New("503"), Error, "is not ready: store: away"},
		"has not reloaded":      {"127.0.0.1:1", "ready\n" + NotReloaded + "routes[0]\n", nil, Warning, NotReloaded + "routes[0]"},
		"stands by for a route": {"127.0.0.1:1", "ready\n" + StandsBy + "orders\n", nil, OK, StandsBy + "orders"},
	} {
		t.Run(name, func(t *testing.T) {
			d := listing(t, settings(t))
			d.Settings.HTTP.Listen, d.Timeout = test.listen, time.Minute
			d.Ready = func(context.Context) (string, error) { return test.answer, test.err }
			d.checkServe(t.Context())
			if test.verdict != "" {
				want(t, d.findings, test.verdict, test.detail, "")
			} else if len(d.findings) > 0 {
				t.Error(text(d.findings))
			}
		})
	}
}
