package subjects

import (
	"context"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/problem"
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

// mergingStore deletes keys, and the first time fails after that.
type mergingStore struct {
	*sqlite.Store
	attempts *int
}

func (s mergingStore) DestroySubjectKeys(ctx context.Context, subjects []string) ([]string, error) {
	destroyed, err := s.Store.DestroySubjectKeys(ctx, subjects)
	if *s.attempts++; *s.attempts == 1 && err == nil {
		err = &eventstore.Error{Kind: eventstore.Unavailable, Reason: "merging"}
	}
	return destroyed, err
}

// An erasure that was cut off after the keys were deleted says so, and is finished by the next although no key is left.
func TestUnfinishedErasure(t *testing.T) {
	file := systemtest.StoreFile(t)
	settings, err := config.Load(config.Sources{Environ: append(keyFiles(t), "WATERSHIP_SOURCE=test", "WATERSHIP_STORE_URL=sqlite:"+file)})
	must(t, err)
	attempts := 0
	sys, err := system.New(system.Config{
		Settings: settings, Name: "test", Logger: slog.New(slog.DiscardHandler),
		OpenStore: func(ctx context.Context) (system.ClosableStore, error) {
			store, err := sqlite.Open(ctx, sqlite.Config{Path: file})
			return mergingStore{store, &attempts}, err
		},
	})
	must(t, err)
	t.Cleanup(func() { _ = sys.Close() })
	store, err := sys.Store(t.Context())
	must(t, err)
	must(t, store.Install(t.Context()))
	_, err = store.KeepSubjectKeys(t.Context(), map[string][]byte{sys.Redactor().Subjects(customers[0])[0]: {1}})
	must(t, err)
	ctx := access.Recording(access.NewContext(t.Context(), access.AsOperator("ada")), new(begun), "")
	in := &EraseInput{Body: Erasure{Subject{Subject: customers[0]}, operation.Bounds{Reason: "asked"}}}
	out, err := operations{sys}.erase(ctx, in)
	if err == nil || !strings.Contains(err.Error(), "erase the subject again") || out.Body.Done != 1 {
		t.Errorf("%+v, %v", out, err)
	}
	out, err = operations{sys}.erase(ctx, in)
	if err != nil || out.Body.Matched != 0 || attempts != 2 {
		t.Errorf("%+v, %v, after %d attempts", out, err, attempts)
	}
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

	// A reader is not told that they are gone.
	reader := access.AsOperator("ada")
	reader.Originals = true
	ctx := access.Recording(access.NewContext(t.Context(), reader), new(begun), "ticket 7")
	originals, err := messages.ReadOriginals(ctx, sys, "*")
	must(t, err)
	stored := systemtest.Events(t, sys, "event.action: published")[0]
	sys.Redactor().Forget(stored.Subjects...)
	away.Store(true)
	if _, err := originals.Of(ctx, stored); err == nil || problem.New(ctx, err).Status != http.StatusServiceUnavailable || strings.Contains(err.Error(), "never sent") {
		t.Errorf("reading an original: %v", err)
	}
	var audited begun
	asked := access.Recording(access.NewContext(t.Context(), reader), &audited, "ticket 7")
	if _, err := messages.ReadOriginals(asked, sys, "*"); err == nil || problem.New(asked, err).Status != http.StatusServiceUnavailable || len(audited.actions) > 0 {
		t.Errorf("before an export: %v, recorded %+v", err, audited.actions)
	}
	away.Store(false)
	if e, err := originals.Of(ctx, stored); err != nil || string(e.Envelope.Body) != bodyOf(customers[0]) {
		t.Errorf("later: %s, %v", e.Envelope.Body, err)
	}
	wantNothing(t, filepath.Dir(file))
}
