package cli

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // to break the embedded store from outside

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// parts are a broker and a store, with all in which those that stories are told
// on differ.
type parts struct {
	broker   rabbittest.Broker // runs while no serve does
	storeURL string
	kind     string // of the store, as people read it
	unmade   string // the check of doctor that says that the store was not made yet
	policies bool   // the broker has policies, and so queues may be other than declared

	// breakable puts something before the store of an installation that takes it
	// away and gives it back.
	breakable func(t *testing.T, i *installation) (away, back func())
}

// around are the parts with a broker: the embedded one has the embedded store.
func around(t *testing.T, broker rabbittest.Broker) parts {
	t.Helper()
	if broker.Own {
		file := "sqlite:" + filepath.Join(t.TempDir(), "store.db")
		return parts{broker: broker, storeURL: file, kind: "SQLite", unmade: "store", breakable: breakableFile}
	}
	return parts{broker: broker, storeURL: storeURL(t), kind: "Elasticsearch", unmade: "templates", policies: true, breakable: breakableServer}
}

// newest are those with the newest RabbitMQ, or the embedded ones where there are
// no servers.
func newest(t *testing.T) parts {
	t.Helper()
	return around(t, rabbittest.Newest(t))
}

// onEvery tells a story on the embedded parts, which are always there, and on
// the newest RabbitMQ, or each one in make soak, with their store.
func onEvery(t *testing.T, story func(t *testing.T, p parts)) {
	t.Parallel() // most of it is waiting
	rabbittest.EachKind(t, func(t *testing.T, broker rabbittest.Broker) {
		t.Parallel()
		story(t, around(t, broker))
	})
}

// onBoth is for what does not depend on the version of RabbitMQ.
func onBoth(t *testing.T, story func(t *testing.T, p parts)) {
	sideBySide(t, func(t *testing.T) { story(t, around(t, rabbittest.Embedded(t))) },
		func(t *testing.T) { story(t, around(t, rabbittest.NewestServer(t))) })
}

// everywhere is for what has the broker as people have it: the embedded one is in
// the serve of an installation.
func everywhere(t *testing.T, story func(t *testing.T, install installer)) {
	sideBySide(t, func(t *testing.T) { story(t, installEmbedded) }, func(t *testing.T) {
		rabbittest.NewestOrEachServer(t, func(t *testing.T, broker rabbittest.Broker) { story(t, around(t, broker).install) })
	})
}

// onNewest is for what does not depend on the kind of broker, and takes long.
func onNewest(t *testing.T, story func(t *testing.T, p parts)) {
	t.Helper()
	t.Parallel() // most of it is waiting
	story(t, newest(t))
}

// inEachStore is for what needs no broker.
func inEachStore(t *testing.T, story func(t *testing.T, seed seeder)) {
	sideBySide(t, func(t *testing.T) { story(t, newSeededFile) }, func(t *testing.T) { story(t, newSeeded) })
}

// bothWays is for what a command prints: it reads the store itself, and through the API of a
// server. What the stores find is tested with them.
func bothWays(t *testing.T, story func(t *testing.T, seed seeder)) {
	t.Parallel() // most of it is waiting
	for name, seed := range map[string]seeder{"store": newSeededFile, "api": newSeededServer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			story(t, seed)
		})
	}
}

// everyWay is bothWays and inEachStore.
func everyWay(t *testing.T, story func(t *testing.T, seed seeder)) {
	bothWays(t, story)
	t.Run("servers", func(t *testing.T) {
		t.Parallel()
		story(t, newSeeded)
	})
}

func sideBySide(t *testing.T, embedded, servers func(t *testing.T)) {
	t.Parallel() // most of it is waiting
	for name, tell := range map[string]func(t *testing.T){"embedded": embedded, "servers": servers} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tell(t)
		})
	}
}

// installer makes an installation whose route has the handler at this address.
type installer func(t *testing.T, handler string) *installation

func (p parts) install(t *testing.T, handler string) *installation {
	t.Helper()
	i := newInstallation(t, p.broker)
	i.onServers(t, handler, p.storeURL)
	t.Cleanup(func() { i.remove(t) })
	return i
}

func installEmbedded(t *testing.T, handler string) *installation {
	t.Helper()
	listen, data := freeAddress(t), t.TempDir()
	i := newInstallation(t, rabbittest.Broker{Address: rabbittest.Address{URL: "amqp://guest:guest@" + listen + "/"}})
	i.store = "sqlite:" + filepath.Join(data, "store.db")
	i.write(t, handler, fmt.Sprintf("amqp: {url: 'embedded://', listen: %q}\ndata: %q\nstore: {url: %q}", listen, data, i.store))
	return i
}

// seed makes a store for commands that run in this process.
func (p parts) seed(t *testing.T, settings ...string) seeded {
	t.Helper()
	return seedStore(t, p.storeURL, append(settings,
		"WATERSHIP_AMQP_URL="+p.broker.URL, "WATERSHIP_AMQP_MANAGEMENT_URL="+p.broker.ManagementURL))
}

// breakableServer has a proxy before it.
func breakableServer(t *testing.T, i *installation) (away, back func()) {
	t.Helper()
	proxy := rabbittest.Address{URL: i.store}.Proxy(t)
	i.rewrite(t, i.store, proxy.URL)
	return proxy.Cut, proxy.Mend
}

// breakableFile is one that a newer Watership takes for itself.
func breakableFile(t *testing.T, i *installation) (away, back func()) {
	t.Helper()
	path, version := strings.TrimPrefix(i.store, "sqlite:"), 0
	away = func() {
		file, err := sql.Open("sqlite", "file:"+path)
		if err == nil {
			err = file.QueryRowContext(t.Context(), "PRAGMA user_version").Scan(&version)
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = file.Close()
		takeFile(t, path)
	}
	return away, func() { changeFile(t, path, fmt.Sprintf("DROP TRIGGER newer; PRAGMA user_version = %d", version)) }
}

func takeFile(t *testing.T, path string) {
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
