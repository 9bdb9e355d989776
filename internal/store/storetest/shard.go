package storetest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"
)

// LoseShard rolls a stream of Elasticsearch over to an index whose shard may be on no
// node. It gets a node when the test ends, or when the function that it returns is
// called.
func LoseShard(t *testing.T, server, stream string) (found func()) {
	t.Helper()
	var templates struct {
		Templates []struct {
			Template json.RawMessage `json:"index_template"`
		} `json:"index_templates"`
	}
	elasticsearch(t, http.MethodGet, server+"/_index_template/"+stream, nil, &templates)
	if len(templates.Templates) != 1 {
		t.Fatalf("%d templates of %s", len(templates.Templates), stream)
	}
	original := templates.Templates[0].Template
	var changed map[string]any
	if err := json.Unmarshal(original, &changed); err != nil {
		t.Fatal(err)
	}
	changed["template"].(map[string]any)["settings"] = map[string]any{"index.routing.allocation.require._name": "nowhere"}
	body, err := json.Marshal(changed)
	if err != nil {
		t.Fatal(err)
	}
	elasticsearch(t, http.MethodPut, server+"/_index_template/"+stream, body, nil)
	var rolled struct {
		Index string `json:"new_index"`
	}
	elasticsearch(t, http.MethodPost, server+"/"+stream+"/_rollover?wait_for_active_shards=0", nil, &rolled)
	elasticsearch(t, http.MethodPut, server+"/_index_template/"+stream, original, nil)
	found = func() {
		elasticsearch(t, http.MethodPut, server+"/"+rolled.Index+"/_settings", []byte(`{"index.routing.allocation.require._name":null}`), nil)
	}
	t.Cleanup(found)
	return found
}

// elasticsearch sends a request of a test's own. It may be called at a test's end.
func elasticsearch(t *testing.T, method, url string, body []byte, into any) {
	t.Helper()
	request, err := http.NewRequestWithContext(context.Background(), method, url, bytes.NewReader(body))
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
	if err != nil || response.StatusCode >= http.StatusMultipleChoices {
		t.Fatalf("%s %s: %s %s %v", method, url, response.Status, text, err)
	}
	if into != nil {
		if err := json.Unmarshal(text, into); err != nil {
			t.Fatal(err)
		}
	}
}
