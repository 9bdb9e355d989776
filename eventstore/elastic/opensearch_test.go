package elastic

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/schemas"
)

// onOpenSearch has the real server of a test be OpenSearch.
func onOpenSearch(t *testing.T) {
	t.Helper()
	server := os.Getenv("WATERSHIP_TEST_OPENSEARCH_URL")
	if server == "" {
		t.Skip("WATERSHIP_TEST_OPENSEARCH_URL is not set: no OpenSearch to test against (scripts/opensearch)")
	}
	t.Setenv("WATERSHIP_TEST_STORE_URL", server)
}

// TestOpenSearch: what holds for Elasticsearch holds for OpenSearch.
func TestOpenSearch(t *testing.T) {
	onOpenSearch(t)
	for name, test := range map[string]func(*testing.T){
		"the store": TestStoreConforms, "aggregations": TestAggregationsConform, "jobs": TestJobsConform,
		"handovers": TestHandoversConform, "records": TestRecordsConform, "subjects": TestSubjectsConform, "replacements": TestReplacementsConform,
		"queries": TestCompiledQueriesFind, "generated queries": TestGeneratedQueries, "allowed queries": TestAllowedQueriesFind,
		"zones": TestDatesAreInAZone, "changes of clocks": TestDatesAtChangesOfClocks,
		"refused templates": TestInstallRefuses, "custom settings": TestCustomSettings, "custom mappings": TestCustomMappings,
		"missing templates": TestCheckNamesAllThatIsMissing, "blocked writes": TestCreateWhenWritesAreBlocked,
		"closed points in time": TestPointsInTimeAreClosed, "a forgotten point in time": TestForgottenPointInTime,
		"one forgotten again": TestForgottenAgain, "a rollover": TestRepeatedAcrossARollover, "an interrupted replacement": TestReplacingInterrupted,
		"large bodies": TestLargeBodies, "a large request": TestTooLargeARequest, "health": TestHealth, "summaries": TestSummariesOfManyPages,
	} {
		t.Run(name, test)
	}
}

// TestRetentionOfOpenSearch: Retain does what the lifecycle of Elasticsearch does.
func TestRetentionOfOpenSearch(t *testing.T) {
	onOpenSearch(t)
	s := installed(t, Config{Retention: map[schemas.Stream]string{schemas.Traffic: "1ms"}})
	create(t, s, eventDocuments(1, 3)...)
	if err := s.retention.rollOver(t.Context(), schemas.Traffic, "30d"); err != nil || indices(t, s, schemas.Traffic) != 1 {
		t.Errorf("a young index was replaced: %v", err)
	}
	if err := s.retention.rollOver(t.Context(), schemas.Traffic, "1ms"); err != nil || indices(t, s, schemas.Traffic) != 2 {
		t.Errorf("an old index was not replaced: %v", err)
	}
	create(t, s, eventDocuments(4, 5)...)
	var removed int64
	for removed == 0 { // the age of an index has to be more than a millisecond, and what it had is noted first
		n, err := s.Retain(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		removed += n
	}
	if err := s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	left, err := s.Count(t.Context(), eventstore.Selection{})
	if removed != 3 || left != 2 || err != nil {
		t.Errorf("removed %d events, and left %d, %v; want 3 and 2", removed, left, err)
	}
	if gone, err := s.Removed(t.Context(), "test"); err != nil || gone.Marks[schemas.Traffic] != 3 {
		t.Errorf("it tells of %+v, %v, want those up to 3", gone, err)
	}
}

func TestTheProductIsWhatTheServerSays(t *testing.T) {
	for name, tt := range map[string]struct {
		product      Product
		header, info string
		asked        []string
		refused      bool
	}{
		"Elasticsearch":            {header: "Elasticsearch", info: `{}`, asked: []string{"/?", "/_bulk?require_data_stream"}},
		"OpenSearch":               {info: `{"version": {"distribution": "opensearch", "number": "2.19.1"}}`, asked: []string{"/?", "/?", "/_bulk?"}},
		"another server":           {info: `{"version": {"number": "1.0"}}`, asked: []string{"/?", "/?"}, refused: true},
		"another server, no JSON":  {info: `welcome`, asked: []string{"/?", "/?"}, refused: true},
		"OpenSearch by setting":    {product: OpenSearch, asked: []string{"/_bulk?"}},
		"Elasticsearch by setting": {product: Elasticsearch, asked: []string{"/_bulk?require_data_stream"}},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				parameter := ""
				if r.URL.Query().Has("require_data_stream") {
					parameter = "require_data_stream"
				}
				asked = append(asked, r.URL.Path+"?"+parameter)
				if tt.header != "" {
					w.Header().Set("X-Elastic-Product", tt.header)
				}
				if r.URL.Path == "/" {
					io.WriteString(w, tt.info)
					return
				}
				io.WriteString(w, `{"items":[{"create":{"_id":"a","status":201}}]}`)
			}))
			defer server.Close()
			s := open(t, Config{URLs: []string{server.URL}, Product: tt.product})
			results, err := s.Create(t.Context(), []schemas.Document{document("a")})
			if errors.Is(err, ErrNotElasticsearch) != tt.refused || !tt.refused && (err != nil || results[0].Status != eventstore.Created) {
				t.Errorf("got %+v, %v", results, err)
			}
			if !slices.Equal(asked, tt.asked) {
				t.Errorf("asked %q, want %q", asked, tt.asked)
			}
		})
	}
}

// A response of another server is refused also once it is known that the server is Elasticsearch: a 404 of a proxy
// does not say that a record is missing.
func TestAnotherServerAnswersLater(t *testing.T) {
	var moved atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !moved.Load() {
			w.Header().Set("X-Elastic-Product", "Elasticsearch")
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	s := open(t, Config{URLs: []string{server.URL}})
	if _, err := s.DeleteRecord(t.Context(), "lease", "a", "1.1"); errors.Is(err, ErrNotElasticsearch) {
		t.Error(err)
	}
	moved.Store(true)
	if _, err := s.DeleteRecord(t.Context(), "lease", "a", "1.1"); !errors.Is(err, ErrNotElasticsearch) {
		t.Errorf("another server answered, and the error is %v", err)
	}
}

// A server that does not say what it is now is not refused as another one.
func TestAServerThatDoesNotTell(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	_, err := open(t, Config{URLs: []string{server.URL}}).DeleteRecord(t.Context(), "lease", "a", "1.1")
	if err == nil || errors.Is(err, ErrNotElasticsearch) || !strings.Contains(err.Error(), "403") {
		t.Errorf("the error is %v, want the status 403", err)
	}
}

func TestTemplatesOfOpenSearch(t *testing.T) {
	body, err := eventstore.StreamTemplate("shop-traffic", "30d", "shop-mappings")
	if err != nil {
		t.Fatal(err)
	}
	for _, template := range [][]byte{body, eventstore.MappingsTemplate()} {
		got, err := openSearchDialect{}.template(template)
		if err != nil {
			t.Fatal(err)
		}
		for _, lacking := range []string{"flattened", "lifecycle", "ignore_missing", `"flat_object","`} {
			if strings.Contains(string(got), lacking) {
				t.Errorf("it has %s, which OpenSearch refuses: %s", lacking, got)
			}
		}
	}
}
