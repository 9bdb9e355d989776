package storetest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"
)

// UnassignShard rolls a stream of Elasticsearch over to an index whose shard cannot be
// allocated to a node. The end of the test allows it again, or the returned function.
func UnassignShard(t *testing.T, server, stream string) (assign func()) {
	t.Helper()
	var templates struct {
		Templates []struct {
			Template json.RawMessage `json:"index_template"`
		} `json:"index_templates"`
	}
	sendRequest(t, http.MethodGet, server+"/_index_template/"+stream, nil, &templates)
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
	sendRequest(t, http.MethodPut, server+"/_index_template/"+stream+"?master_timeout=2m", body, nil)
	var rolled struct {
		Index string `json:"new_index"`
	}
	sendRequest(t, http.MethodPost, server+"/"+stream+"/_rollover?master_timeout=2m&wait_for_active_shards=0", nil, &rolled)
	sendRequest(t, http.MethodPut, server+"/_index_template/"+stream+"?master_timeout=2m", original, nil)
	assign = func() {
		sendRequest(t, http.MethodPut, server+"/"+rolled.Index+"/_settings?master_timeout=2m", []byte(`{"index.routing.allocation.require._name":null}`), nil)
	}
	t.Cleanup(assign)
	return assign
}

// sendRequest sends a request to Elasticsearch, also at the end of a test.
func sendRequest(t *testing.T, method, url string, body []byte, into any) {
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
