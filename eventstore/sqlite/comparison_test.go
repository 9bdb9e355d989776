package sqlite

import (
	"context"
	"crypto/rand"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore/elastic"
	"github.com/watershipmq/watership/eventstore/storetest"
)

// store is implemented by both stores.
type store interface {
	storetest.Aggregations
	storetest.Jobs
	Install(ctx context.Context) error
	Check(ctx context.Context) error
	Clock(ctx context.Context) (time.Time, error)
	Close() error
}

var (
	_ store = (*Store)(nil)
	_ store = (*elastic.Store)(nil)
)

func TestAnswersAreElasticsearchs(t *testing.T) {
	t.Parallel()
	storetest.RunComparison(t, elasticsearch(t, storetest.ComparisonLabels()...), installed(t, Config{Labels: storetest.ComparisonLabels()}))
}

func elasticsearch(t *testing.T, labels ...string) *elastic.Store {
	t.Helper()
	server := os.Getenv("WATERSHIP_TEST_STORE_URL")
	if server == "" {
		if os.Getenv("WATERSHIP_TEST_REQUIRED") == "1" {
			t.Fatal("WATERSHIP_TEST_STORE_URL is not set")
		}
		t.Skip("WATERSHIP_TEST_STORE_URL is not set: no Elasticsearch to compare with")
	}
	s, err := elastic.Open(elastic.Config{URLs: []string{server}, Stream: "test-" + strings.ToLower(rand.Text()), Labels: labels})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if err := s.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}
