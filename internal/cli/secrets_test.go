package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/operate/doctor"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// doctor and serve name secrets that others can read, and no others.
func TestExposedSecrets(t *testing.T) {
	t.Parallel() // most of it is waiting
	open, closed := writeFile(t, "open", "s3cret"), writeFile(t, "closed", "s3cret")
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		broker, store, file string
		want                []string
	}{
		"none":                {"amqps://user@rabbitmq.example/", "https://elastic.example:9200", closed, nil},
		"loopback":            {"amqp://guest:guest@127.0.0.1/", "http://user:s3cret@localhost:9200", "", nil},
		"a container network": {"amqp://guest:guest@rabbitmq:5672/", "http://user:s3cret@elasticsearch:9200", "", nil},
		"a file for all":      {"amqps://user@rabbitmq.example/", "https://elastic.example:9200", open, []string{"amqp.password_file: every user of this machine may read " + open}},
		"in clear": {"amqp://user:s3cret@10.1.2.3/", "http://user:s3cret@elastic.example:9200", "", []string{
			"amqp.url: the password travels in clear to 10.1.2.3", "store.url: the login travels in clear to elastic.example:9200",
		}},
		"the default login": {"amqp://guest:guest@rabbitmq.example/", "sqlite:file", "", []string{
			"amqp.url: the password travels in clear to rabbitmq.example", "amqp.url: rabbitmq.example has the login guest with its default password",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, e := range doctor.Exposures(config.Config{
				AMQP:  config.AMQP{URL: config.NewURL(test.broker), PasswordFile: test.file},
				Store: config.Store{URL: config.NewURL(test.store)},
			}) {
				got = append(got, e.Detail)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	r := call(t.Context(), strings.NewReader(""), []string{"WATERSHIP_AMQP_URL=amqp://user@127.0.0.1:1/", "WATERSHIP_AMQP_PASSWORD_FILE=" + open, "WATERSHIP_STORE_URL=http://127.0.0.1:1"}, "doctor")
	if !strings.Contains(columnsOf(r.out), "warning secrets amqp.password_file") || !strings.Contains(r.out, "chmod 600 "+open) {
		t.Errorf("%+v", r)
	}
}

// The whole thread over TLS, with a broker that wants our certificate.
func TestBrokerOverTLS(t *testing.T) {
	broker := rabbittest.TLS(t)
	handler := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(handler.Close)
	i := install(t, broker.Broker, handler.URL)
	environ := append(os.Environ(), "WATERSHIP_AMQP_URL="+broker.URL("", "", ""),
		"WATERSHIP_AMQP_TLS_CERT="+broker.ClientCert, "WATERSHIP_AMQP_TLS_KEY="+broker.ClientKey)
	i.environ = environ
	if r := i.run(t, "publish", "--exchange", i.exchange, "--key", "k"); r.code != exitFailed || !strings.Contains(r.err, "certificate") {
		t.Errorf("without our authority: exit code %d, %s", r.code, r.err)
	}
	i.environ = append(environ, "WATERSHIP_AMQP_TLS_CA="+broker.CA)
	i.serve(t)
	i.must(t, "publish", "--exchange", i.exchange, "--key", "k")
	i.eventually(t, "action: handled", 1)
}
