package runfile

import (
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Any address that is read from a file is on this machine, for every
// parser that a URL is given to.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		`{"pid": 1, "instance": "a", "amqp": "amqp://guest:guest@127.0.0.1:5672", "management": "http://guest:guest@127.0.0.1:1", "store": "sqlite:/x/store.db"}`,
		`{"instance": "a", "amqp": "amqp://[::1]:5672", "management": "http://127.0.0.1:1", "store": ""}`,
		`{"instance": "a", "amqp": "amqp://127.0.0.1:1@evil.example:5672", "management": "http://127.0.0.1#@evil.example:1", "store": "sqlite:x"}`,
		`{"instance": "\u001b]0;x", "amqp": "amqp://127.0.0.1:5672/v", "management": "https://127.0.0.1:1", "store": "http://127.0.0.1:9200"}`,
		`[]`, `{`, ``,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := parse(text)
		if err != nil {
			return
		}
		broker, err := amqp.ParseURI(r.AMQP)
		if err != nil || broker.Scheme != "amqp" || !isHere(broker.Host) {
			t.Errorf("the broker is %q: %v", r.AMQP, err)
		}
		management, err := url.Parse(r.Management)
		if err != nil || management.Scheme != "http" || !isHere(management.Hostname()) {
			t.Errorf("the management API is %q: %v", r.Management, err)
		}
		if path, isFile := strings.CutPrefix(r.Store, "sqlite:"); r.Store != "" && (!isFile || !filepath.IsAbs(path)) {
			t.Errorf("the store is %q", r.Store)
		}
	})
}

func isHere(host string) bool {
	ip := net.ParseIP(host)
	return ip != nil && (ip.IsLoopback() || isLocalAddress(ip))
}
