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
	"github.com/watershipmq/watership/internal/server/servertest"
)

// doctor and serve name secrets that others can read, and no others.
func TestExposedSecrets(t *testing.T) {
	t.Parallel() // most of it is waiting
	open, closed := servertest.WriteFile(t, "open", "s3cret"), servertest.WriteFile(t, "closed", "s3cret")
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
	if !strings.Contains(columnsOf(r.Out), "warning secrets amqp.password_file") || !strings.Contains(r.Out, "chmod 600 "+open) {
		t.Errorf("%+v", r)
	}
}

// The whole thread over TLS, with a broker that wants our certificate.
func TestBrokerOverTLS(t *testing.T) {
	broker := rabbittest.TLS(t)
	handler := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(handler.Close)
	i := servertest.Install(t, broker.Broker, handler.URL)
	environ := append(os.Environ(), "WATERSHIP_AMQP_URL="+broker.URL("", "", ""),
		"WATERSHIP_AMQP_TLS_CERT="+broker.ClientCert, "WATERSHIP_AMQP_TLS_KEY="+broker.ClientKey)
	i.Environ = environ
	if r := i.Run(t, "publish", "--exchange", i.Exchange, "--key", "k"); r.Code != exitFailed || !strings.Contains(r.Err, "certificate") {
		t.Errorf("without our authority: exit code %d, %s", r.Code, r.Err)
	}
	i.Environ = append(environ, "WATERSHIP_AMQP_TLS_CA="+broker.CA)
	i.Serve(t)
	i.Must(t, "publish", "--exchange", i.Exchange, "--key", "k")
	i.Eventually(t, "action: handled", 1)
}

// A file without a key of 32 bytes is refused, and no error shows what is in it.
func TestStateKeysThatAreNone(t *testing.T) {
	for text, want := range map[string]string{"": "there is no key", "s3cret\n": "line 1 has 6 bytes: expected a key of at least 32"} {
		file := servertest.WriteFile(t, "keys", text)
		r := call(t.Context(), strings.NewReader(""), []string{"WATERSHIP_AMQP_STATE_KEY_FILE=" + file}, "doctor")
		if r.Code != exitUsage || !strings.Contains(r.Err, "amqp.state_key_file: "+file+": "+want) || strings.Contains(r.Err, "s3cret") {
			t.Errorf("%q: %+v", text, r)
		}
	}
}
