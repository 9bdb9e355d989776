package elastic

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas"
)

func TestInstallTwice(t *testing.T) {
	s := installed(t, Config{Retention: map[schemas.Stream]string{schemas.Failures: "90d"}})
	create(t, s, eventDocuments(1, 1)...)
	if err := s.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if n := indices(t, s, schemas.Traffic); n != 1 {
		t.Errorf("installing again left %d indices, want 1", n)
	}
	for stream, want := range map[schemas.Stream]string{schemas.Failures: `"data_retention":"90d"`, schemas.Traffic: `"lifecycle":{"enabled":true}`} {
		template := mustDo(t, "GET", "/_index_template/"+s.dataStream(stream), "")
		if !strings.Contains(template, want) || !strings.Contains(template, `"priority":500`) {
			t.Errorf("template of %s lacks %s or its priority: %s", stream, want, template)
		}
	}
}

// The settings of an operator go before Watership's, and Install neither writes nor removes them.
func TestCustomSettings(t *testing.T) {
	s := open(t, Config{})
	custom := "/_component_template/" + s.dataStream(schemas.Traffic) + "@custom"
	mustDo(t, "PUT", custom, `{"template":{"settings":{"index.number_of_shards":2,"index.auto_expand_replicas":"0-2"}}}`)
	if err := s.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	create(t, s, eventDocuments(1, 1)...)
	if err := s.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	settings := mustDo(t, "GET", "/"+s.dataStream(schemas.Traffic)+"/_settings?flat_settings=true", "")
	for _, want := range []string{`"index.number_of_shards":"2"`, `"index.auto_expand_replicas":"0-2"`, `"index.codec":"best_compression"`} {
		if !strings.Contains(settings, want) {
			t.Errorf("the index lacks %s: %s", want, settings)
		}
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// The component template of an operator takes precedence over all of Watership's mappings.
func TestCustomMappings(t *testing.T) {
	s := open(t, Config{})
	custom := "/_component_template/" + s.dataStream(schemas.Failures) + "@custom"
	mustDo(t, "PUT", custom, `{"template":{"mappings":{"properties":{"watership":{"properties":{"fingerprint":{"type":"keyword","ignore_above":77}}}}}}}`)
	if err := s.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	e := event(1)
	e.Action = schemas.Poisoned
	create(t, s, schemas.DocumentFormat{}.Document(e))
	mapping := mustDo(t, "GET", "/"+s.dataStream(schemas.Failures)+"/_mapping/field/watership.fingerprint,messaging.message.id", "")
	for _, want := range []string{`"ignore_above":77`, `"doc_values":false`} { // the fingerprint of the operator, and the message id of Watership
		if strings.Count(mapping, want) != 1 {
			t.Errorf("the mapping has %s %d times: %s", want, strings.Count(mapping, want), mapping)
		}
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// indices counts the backing indices of a stream.
func indices(t *testing.T, s *Store, stream schemas.Stream) int {
	t.Helper()
	versions, err := s.mappingVersions(t.Context(), s.dataStream(stream))
	if err != nil {
		t.Fatal(err)
	}
	return len(versions)
}

func TestInstallRefuses(t *testing.T) {
	const foreign = `{"template":{},"_meta":{"managed_by":"somebody","version":1}}`
	for name, tt := range map[string]struct{ path, body, says string }{
		"a component template of others":        {"/_component_template/STREAM-mappings", foreign, "component template STREAM-mappings is not Watership's"},
		"an index template of others":           {"/_index_template/STREAM-failures", `{"index_patterns":["STREAM-failures"]}`, "index template STREAM-failures is not Watership's"},
		"a second component template of others": {"/_component_template/STREAM-mappings-failures", foreign, "component template STREAM-mappings-failures is not Watership's"},
		"an odd _meta":                          {"/_component_template/STREAM-mappings", `{"template":{},"_meta":{"managed_by":["watership"],"version":"x"}}`, "not Watership's"},
		"a newer version":                       {"/_component_template/STREAM-mappings", `{"template":{},"_meta":{"managed_by":"watership","version":99}}`, "has version 99"},
		"an ordinary index in place":            {"/STREAM-traffic", `{}`, "is an ordinary index"},
		"another template of higher priority":   {"/_index_template/STREAM-other", `{"index_patterns":["STREAM-*"],"data_stream":{},"priority":501}`, "priority above 500"},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, Config{})
			named := strings.NewReplacer("STREAM", s.stream)
			mustDo(t, "PUT", named.Replace(tt.path), named.Replace(tt.body))
			before, _ := do(t, "GET", "/_index_template/"+s.dataStream(schemas.Traffic), "")
			err := s.Install(t.Context())
			if err == nil || !strings.Contains(err.Error(), named.Replace(tt.says)) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("got %v, want one line with %q", err, named.Replace(tt.says))
			}
			after, _ := do(t, "GET", "/_index_template/"+s.dataStream(schemas.Traffic), "")
			if strings.Contains(tt.path, "STREAM-mappings") && before != after {
				t.Error("it began to install all the same")
			}
			if strings.HasPrefix(tt.path, "/_component") && !strings.Contains(tt.body, "99") {
				wantCheck(t, s, tt.says)
			}
		})
	}
}

func wantCheck(t *testing.T, s *Store, says string) {
	t.Helper()
	err := s.Check(t.Context())
	if says = strings.ReplaceAll(says, "STREAM", s.stream); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
		t.Errorf("checking gave %v, want one line with %q", err, says)
	}
}

// TestInstallUpgrades begins with a stream whose mapping is older than the templates, as
// after a crash between the templates and the rollover.
func TestInstallUpgrades(t *testing.T) {
	s := installed(t, Config{})
	var template map[string]any
	if err := json.Unmarshal(eventstore.MappingsTemplate(), &template); err != nil {
		t.Fatal(err)
	}
	delete(template["template"].(map[string]any)["mappings"].(map[string]any), "_meta")
	older, err := json.Marshal(template)
	if err != nil {
		t.Fatal(err)
	}
	mustDo(t, "PUT", "/_component_template/"+s.mappingsTemplate(), string(older))
	create(t, s, eventDocuments(1, 1)...)
	for range 2 {
		if err := s.Install(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := indices(t, s, schemas.Traffic); n != 2 {
			t.Errorf("the stream has %d indices, want the old and a new one", n)
		}
		if n := indices(t, s, schemas.Failures); n != 0 {
			t.Errorf("a stream without documents has %d indices", n)
		}
	}
}

// atVersion1 returns a template of this version as one of version 1.
func atVersion1(t *testing.T, template []byte) string {
	t.Helper()
	var fields map[string]any
	if err := json.Unmarshal(template, &fields); err != nil {
		t.Fatal(err)
	}
	meta, _ := fields["_meta"].(map[string]any)
	if meta["version"] != float64(eventstore.TemplateVersion) {
		t.Fatalf("the template has %v, want version %d", fields["_meta"], eventstore.TemplateVersion)
	}
	meta["version"] = 1
	text, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestInstallUpgradesVersion1 begins with the templates and documents of version 1. Both
// forms are then read, searched and counted together.
func TestInstallUpgradesVersion1(t *testing.T) {
	s := open(t, Config{})
	mustDo(t, "PUT", "/_component_template/"+s.mappingsTemplate(), readTestdata(t, "testdata/mappings-v1.json"))
	for _, stream := range s.written() {
		body, err := eventstore.StreamTemplate(s.dataStream(stream), "", s.mappingsTemplate())
		if err != nil {
			t.Fatal(err)
		}
		mustDo(t, "PUT", "/_index_template/"+s.dataStream(stream), atVersion1(t, body))
	}
	wantCheck(t, s, "component template STREAM-mappings has version 1, this Watership needs 10: run `watership setup`")
	var former []schemas.Document
	for line := range strings.Lines(readTestdata(t, "../storetest/testdata/documents-v1.ndjson")) {
		event, err := schemas.ParseDocument([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		former = append(former, schemas.Document{ID: event.EventID, Stream: event.Action.Stream(), Source: []byte(strings.TrimSpace(line))})
	}
	create(t, s, former...)
	for range 2 {
		if err := s.Install(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Check(t.Context()); err != nil || indices(t, s, schemas.Traffic) != 2 || indices(t, s, schemas.Failures) != 2 {
		t.Errorf("after the upgrade: %v, %d and %d indices", err, indices(t, s, schemas.Traffic), indices(t, s, schemas.Failures))
	}
	for _, doc := range former {
		event, err := schemas.ParseDocument(doc.Source)
		if err != nil {
			t.Fatal(err)
		}
		event.EventID += "-2"
		create(t, s, schemas.DocumentFormat{Labels: []string{"tenant"}}.Document(event))
	}
	if err := s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	fingerprints := map[string]int{}
	for summary, err := range s.Summaries(t.Context(), eventstore.Selection{}) {
		if err != nil {
			t.Fatal(err)
		}
		fingerprints[strings.TrimSuffix(summary.EventID, "-2")+summary.Fingerprint+summary.MessageID]++
	}
	for of, n := range fingerprints {
		if n != 2 {
			t.Errorf("%d summaries of %s", n, of)
		}
	}
	for field, want := range map[string]int64{"headers.tenant": 20, "body.json.lines.sku": 2, "messaging.message.id": 18, "labels.tenant": 20} {
		counts, err := s.TopValues(t.Context(), eventstore.Selection{}, field, 1)
		if err != nil || len(counts.Values) != 1 || counts.Values[0].Count != want || counts.Without != int64(2*len(former))-want-counts.Others {
			t.Errorf("%s: %+v, %v, want %d", field, counts, err, want)
		}
	}
	for query, want := range map[string]int64{
		"headers.tenant: acme": 20, "body.json.lines.sku: a-1": 2, "body.text: violins": 2, "event.id: bare*": 2,
		"event.id: (bare or bare-2 or texts)": 3, "headers: *": 20, "violins": 2, "m-1": 20,
	} {
		node, err := kql.Parse(query)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := s.Count(t.Context(), eventstore.Selection{Query: node}); err != nil || n != want {
			t.Errorf("%s finds %d (%v), want %d", query, n, err, want)
		}
	}
}

func readTestdata(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestCheckNamesAllThatIsMissing(t *testing.T) {
	s := open(t, Config{})
	for _, name := range []string{"component template STREAM-mappings", "component template STREAM-mappings-failures", "index template STREAM-traffic", "index template STREAM-failures"} {
		wantCheck(t, s, name+" is missing")
	}
}

// TestCreateWithoutTemplate: nothing is created, not even an ordinary index.
func TestCreateWithoutTemplate(t *testing.T) {
	s := open(t, Config{})
	results, err := s.Create(t.Context(), []schemas.Document{document("a")})
	if err != nil || results[0].Status != eventstore.Busy || !strings.Contains(results[0].Reason, "no matching index template") {
		t.Errorf("got %+v, %v", results, err)
	}
	if status, _ := do(t, "GET", "/"+s.dataStream(schemas.Traffic), ""); status != http.StatusNotFound {
		t.Errorf("looking for the index gave %d", status)
	}
}

// TestCreateWhenWritesAreBlocked: Elasticsearch sets this block when the disk is full.
func TestCreateWhenWritesAreBlocked(t *testing.T) {
	s := installed(t, Config{})
	create(t, s, eventDocuments(1, 1)...)
	mustDo(t, "PUT", "/"+s.dataStream(schemas.Traffic)+"/_settings", `{"index.blocks.read_only_allow_delete":true}`)
	failed := event(3)
	failed.Action = schemas.Poisoned
	docs := append(eventDocuments(2, 2), schemas.DocumentFormat{}.Document(failed))
	results, err := s.Create(t.Context(), docs)
	if err != nil || results[0].Status != eventstore.Busy || results[1].Status != eventstore.Created {
		t.Errorf("got %+v, %v, want the first Busy, the other Created", results, err)
	}
	mustDo(t, "PUT", "/"+s.dataStream(schemas.Traffic)+"/_settings", `{"index.blocks.read_only_allow_delete":null}`)
	create(t, s, eventDocuments(2, 2)...)
}

// TestRetentionOfAnExistingStream: the test servers cannot change a retention, so the
// proxy answers the request, or lets the server refuse it.
func TestRetentionOfAnExistingStream(t *testing.T) {
	var asked []string
	supported := true
	s := throughProxy(t, func(w http.ResponseWriter, r *http.Request, real http.Handler) {
		if !supported || !strings.HasPrefix(r.URL.Path, "/_data_stream/") {
			real.ServeHTTP(w, r)
			return
		}
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, r.Method+" "+r.URL.Path+" "+string(body))
		w.Header().Set("X-Elastic-Product", "Elasticsearch")
		io.WriteString(w, `{"acknowledged":true}`)
	})
	s.installer.retention = map[schemas.Stream]string{schemas.Traffic: "7d"}
	var logged bytes.Buffer
	s.logger = slog.New(slog.NewJSONHandler(&logged, nil))
	if err := s.Install(t.Context()); err != nil || asked != nil {
		t.Fatalf("without streams: %v, %v", err, asked)
	}
	create(t, s, eventDocuments(1, 1)...)
	if err := s.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := "PUT /_data_stream/" + s.dataStream(schemas.Traffic) + `/_lifecycle {"data_retention":"7d","enabled":true}`
	if len(asked) != 1 || asked[0] != want {
		t.Errorf("asked %q, want %q", asked, want)
	}
	supported = false
	if err := s.Install(t.Context()); err != nil {
		t.Error(err)
	}
	var line struct{ Level string }
	if err := json.Unmarshal(logged.Bytes(), &line); err != nil || line.Level != "WARN" {
		t.Errorf("logged %q, want a warning", logged.String())
	}
}
