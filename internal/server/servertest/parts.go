package servertest

import (
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // to break the embedded store from outside

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// StoreURL is the Elasticsearch of the tests.
func StoreURL(t *testing.T) string {
	t.Helper()
	store := os.Getenv("WATERSHIP_TEST_STORE_URL")
	if store == "" {
		Missing(t, `no store: WATERSHIP_TEST_STORE_URL is not set (scripts/services up; eval "$(scripts/services env)")`)
	}
	return store
}

// Missing skips a test for a reason, or fails it if WATERSHIP_TEST_REQUIRED is set.
func Missing(t *testing.T, reason string) {
	t.Helper()
	if os.Getenv("WATERSHIP_TEST_REQUIRED") != "" {
		t.Fatal(reason)
	}
	t.Skip(reason)
}

// Parts are a broker and a store of a test, with their differences from others.
type Parts struct {
	Broker   rabbittest.Broker // runs while no serve does
	StoreURL string
	Kind     string // of the store, as people read it
	Unmade   string // the check of doctor that says that the store was not made yet
	Policies bool   // the broker has policies, and so queues may be other than declared

	// Breakable puts a proxy or a lock before the store of an installation, with which away and back
	// take the store away and give it back.
	Breakable func(t *testing.T, i *Installation) (away, back func())
}

// Around are the parts with a broker: the embedded one has the embedded store.
func Around(t *testing.T, broker rabbittest.Broker) Parts {
	t.Helper()
	if broker.Own {
		file := "sqlite:" + filepath.Join(t.TempDir(), "store.db")
		return Parts{Broker: broker, StoreURL: file, Kind: "SQLite", Unmade: "store", Breakable: breakableFile}
	}
	return Parts{Broker: broker, StoreURL: StoreURL(t), Kind: "Elasticsearch", Unmade: "templates", Policies: true, Breakable: breakableServer}
}

// Newest are those with the newest RabbitMQ, or the embedded ones where there are
// no servers.
func Newest(t *testing.T) Parts {
	t.Helper()
	return Around(t, rabbittest.Newest(t))
}

// OnEvery runs a test on the embedded parts, which are always there, and on the newest RabbitMQ, or
// each one in make soak, with their store.
func OnEvery(t *testing.T, test func(t *testing.T, p Parts)) {
	t.Parallel() // most of it is waiting
	rabbittest.EachKind(t, func(t *testing.T, broker rabbittest.Broker) {
		t.Parallel()
		test(t, Around(t, broker))
	})
}

// OnEither runs a test that does not depend on the version of RabbitMQ, in its forms.
func OnEither(t *testing.T, test func(t *testing.T, p Parts)) {
	InForms(t, func(t *testing.T) { test(t, Around(t, rabbittest.Embedded(t))) },
		func(t *testing.T) { test(t, Around(t, rabbittest.NewestServer(t))) })
}

// OnEitherInstallation runs a test of whole installations in its forms: the embedded broker is in the serve of one.
func OnEitherInstallation(t *testing.T, test func(t *testing.T, install Installer)) {
	InForms(t, func(t *testing.T) { test(t, InstallEmbedded) }, func(t *testing.T) {
		rabbittest.NewestOrEachServer(t, func(t *testing.T, broker rabbittest.Broker) { test(t, Around(t, broker).Install) })
	})
}

// OnNewest runs a long test that does not depend on the kind of broker.
func OnNewest(t *testing.T, test func(t *testing.T, p Parts)) {
	t.Helper()
	t.Parallel() // most of it is waiting
	test(t, Newest(t))
}

// InForms runs a test in its forms (rabbittest.Forms), at the same time if there are two.
func InForms(t *testing.T, embedded, servers func(t *testing.T)) {
	t.Parallel() // most of it is waiting
	isEmbedded, onServers := rabbittest.Forms(t)
	run := func(name string, form func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			form(t)
		})
	}
	if isEmbedded {
		run("embedded", embedded)
	}
	if onServers {
		run("servers", servers)
	}
}

// Installer makes an installation whose route has the handler at this address.
type Installer func(t *testing.T, handler string) *Installation

// Install makes an installation with the parts, whose names are deleted when the test ends.
func (p Parts) Install(t *testing.T, handler string) *Installation {
	t.Helper()
	i := NewInstallation(t, p.Broker)
	i.OnServers(t, handler, p.StoreURL)
	t.Cleanup(func() { i.Remove(t) })
	return i
}

// InstallEmbedded makes an installation whose serve has the broker and the store.
func InstallEmbedded(t *testing.T, handler string) *Installation {
	t.Helper()
	listen, data := rabbittest.FreeAddress(t), t.TempDir()
	i := NewInstallation(t, rabbittest.Broker{Address: rabbittest.Address{URL: "amqp://guest:guest@" + listen + "/"}})
	i.Store = "sqlite:" + filepath.Join(data, "store.db")
	i.write(t, handler, fmt.Sprintf("amqp: {url: 'embedded://', listen: %q}\ndata: %q\nstore: {url: %q}", listen, data, i.Store))
	return i
}

// breakableServer has a proxy before it.
func breakableServer(t *testing.T, i *Installation) (away, back func()) {
	t.Helper()
	proxy := rabbittest.Address{URL: i.Store}.Proxy(t)
	i.Rewrite(t, i.Store, proxy.URL)
	return proxy.Cut, proxy.Mend
}

// breakableFile is one that a newer Watership takes for itself.
func breakableFile(t *testing.T, i *Installation) (away, back func()) {
	t.Helper()
	path, version := strings.TrimPrefix(i.Store, "sqlite:"), 0
	away = func() {
		file, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(60000)")
		if err == nil {
			err = file.QueryRowContext(t.Context(), "PRAGMA user_version").Scan(&version)
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = file.Close()
		TakeFile(t, path)
	}
	return away, func() { changeFile(t, path, fmt.Sprintf("DROP TRIGGER newer; PRAGMA user_version = %d", version)) }
}

// TakeFile changes the file of a store as a newer Watership would.
func TakeFile(t *testing.T, path string) {
	t.Helper()
	changeFile(t, path, "PRAGMA user_version = 99; CREATE TRIGGER newer BEFORE INSERT ON event BEGIN SELECT RAISE(ABORT, 'newer'); END")
}

func changeFile(t *testing.T, path, statements string) {
	t.Helper()
	file, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(60000)")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.ExecContext(t.Context(), statements); err != nil {
		t.Fatal(err)
	}
}

// AskStore sends a request to the Elasticsearch of an installation, and returns the answer.
func (i *Installation) AskStore(t *testing.T, method, path, body string) []byte {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, i.Store+"/"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s %s (%v)", method, path, response.Status, text, err)
	}
	return text
}
