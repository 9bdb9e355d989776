package subjects

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/internal/topology"
	"github.com/watershipmq/watership/privacy"
)

// awayStore has no keys while it is away, and counts the requests for them.
type awayStore struct {
	*sqlite.Store
	away     *atomic.Bool
	requests *atomic.Int32
}

func (s awayStore) SubjectKeys(ctx context.Context, subjects []string) (map[string][]byte, error) {
	s.requests.Add(1)
	if s.away.Load() {
		return nil, &eventstore.Error{Kind: eventstore.Unavailable, Reason: "away"}
	}
	return s.Store.SubjectKeys(ctx, subjects)
}

// While the keys of subjects cannot be had, nothing is recorded in plain, and nothing is lost.
func TestKeysAreAway(t *testing.T) {
	broker, file := rabbittest.Embedded(t), systemtest.StoreFile(t)
	settings, err := config.Load(config.Sources{Environ: append(keyFiles(t),
		"WATERSHIP_AMQP_URL="+broker.URL, "WATERSHIP_AMQP_MANAGEMENT_URL="+broker.ManagementURL, "WATERSHIP_SOURCE=test", "WATERSHIP_STORE_URL=sqlite:"+file)})
	must(t, err)
	var away atomic.Bool
	var requests atomic.Int32
	away.Store(true)
	sys, err := system.New(system.Config{
		Settings: settings, Name: "test", Logger: slog.New(slog.DiscardHandler),
		OpenStore: func(ctx context.Context) (system.ClosableStore, error) {
			store, err := sqlite.Open(ctx, sqlite.Config{Path: file})
			return awayStore{store, &away, &requests}, err
		},
	})
	must(t, err)
	t.Cleanup(func() { _ = sys.Close() })
	systemtest.Index(t, sys)
	conn, err := rabbit.Open(rabbit.Config{URL: broker.URL, Name: t.Name()})
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	exchange := rabbittest.Name(t)
	must(t, topology.Declare(t.Context(), conn, topology.Config{Tap: []topology.Tap{{Exchange: exchange, Type: "topic"}}}))
	p := amqp.Publishing{Headers: amqp.Table{"x-customer": customers[0]}, Body: []byte(bodyOf(customers[0]))}
	must(t, broker.Channel(t).PublishWithContext(t.Context(), exchange, "order.created", false, false, p))
	rabbittest.Eventually(t, "the keys are asked for again", func() bool { return requests.Load() >= 3 })
	if found := systemtest.Events(t, sys, "event.id: *"); len(found) > 0 {
		t.Errorf("%d events were recorded without keys", len(found))
	}
	wantNothing(t, filepath.Dir(file))
	away.Store(false)
	eventually(t, sys, "event.action: published", 1)
	e := systemtest.Events(t, sys, "event.action: published")[0]
	must(t, privacy.Open(t.Context(), sys.Opener(), &e))
	if string(e.Envelope.Body) != bodyOf(customers[0]) {
		t.Errorf("the original is %s", e.Envelope.Body)
	}
	wantNothing(t, filepath.Dir(file))
}
