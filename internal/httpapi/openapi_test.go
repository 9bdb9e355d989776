package httpapi_test

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/httpapi"
	"github.com/watershipmq/watership/internal/render/reason"
	"github.com/watershipmq/watership/internal/system"
)

const openapi = "../../docs/openapi.json"

// The API does not change by accident: WATERSHIP_TEST_UPDATE=1 writes the document again.
func TestOpenAPIDocument(t *testing.T) {
	settings, err := config.Load(config.Sources{})
	if err != nil {
		t.Fatal(err)
	}
	a, err := system.New(system.Config{Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	got := httpapi.New(a, nil).Document()
	if os.Getenv("WATERSHIP_TEST_UPDATE") == "1" {
		if err := os.WriteFile(openapi, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(openapi)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("docs/openapi.json does not describe the API: go test ./internal/httpapi -run OpenAPI with WATERSHIP_TEST_UPDATE=1 writes it")
	}
}

// Each reason of a request has the length that commands allow.
func TestReasonsHaveOneLength(t *testing.T) {
	content, err := os.ReadFile(openapi)
	if err != nil {
		t.Fatal(err)
	}
	var document any
	if err := json.Unmarshal(content, &document); err != nil {
		t.Fatal(err)
	}
	found := 0
	var look func(place string, value any)
	look = func(place string, value any) {
		object, isObject := value.(map[string]any)
		if properties, ok := object["properties"].(map[string]any); ok {
			if text, ok := properties["reason"].(map[string]any); ok && text["maxLength"] != nil {
				if found++; text["maxLength"] != float64(reason.Max) {
					t.Errorf("%s: %v", place, text)
				}
			}
		}
		if isObject {
			for name, member := range object {
				look(place+"/"+name, member)
			}
		}
	}
	look("", document)
	if found < 9 {
		t.Errorf("%d reasons", found)
	}
}
