package cli

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/watershipmq/watership/internal/database"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/outbox"
	"github.com/watershipmq/watership/rabbitmq"
	"github.com/watershipmq/watership/schemas"
)

// Events that are appended in transactions are recorded with their stream and version, so that stream --check is exact:
// it succeeds if all of them came, and names the one that did not.
func TestStreamOfAppendedEvents(t *testing.T) {
	t.Parallel()
	service := servertest.NewService(t, func(servertest.Post, int) int { return http.StatusOK })
	i := servertest.InstallEmbedded(t, service.URL)
	i.Rewrite(t, "store: {", fmt.Sprintf("streams: [{id: '{headers.%s}', version: '{headers.%s}'}]\nstore: {", outbox.StreamHeader, outbox.VersionHeader))
	i.Serve(t)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "bank.db")+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := outbox.Install(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	for version := range int64(5) {
		for _, stream := range []string{"account-7", "account-8"} {
			err := database.InTx(t.Context(), db, func(tx *sql.Tx) error {
				return outbox.Append(t.Context(), tx, stream, version, schemas.Envelope{Exchange: i.Exchange, RoutingKey: "k", Body: fmt.Append(nil, version+1)})
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	// An event of account-8 is lost on its way.
	result, err := db.ExecContext(t.Context(), "DELETE FROM watership_outbox WHERE id = 6")
	if n, _ := result.RowsAffected(); err != nil || n != 1 {
		t.Fatalf("%d rows are deleted, %v", n, err)
	}
	relay, err := outbox.NewRelay(outbox.RelayConfig{DB: db, Connection: rabbitmq.Connection{URL: i.Broker.URL}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	work.Go(func() { _ = relay.Run(ctx) })
	i.Eventually(t, "action: published", 9)
	if got := i.Run(t, "stream", "account-7", "--check"); got.Code != exitOK || !strings.Contains(got.Out, "\n5 messages, by version\n") {
		t.Errorf("%+v", got)
	}
	if got := i.Run(t, "stream", "account-8", "--check"); got.Code != exitFailed || !strings.Contains(got.Out, "\ngap: version 3 is missing\n") {
		t.Errorf("%+v", got)
	}
}
