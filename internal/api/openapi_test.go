package api_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/watershipmq/watership/internal/api"
	"github.com/watershipmq/watership/internal/app"
	"github.com/watershipmq/watership/internal/config"
)

const openapi = "../../docs/openapi.json"

// The API does not change by accident: WATERSHIP_TEST_UPDATE=1 writes the document again.
func TestOpenAPIDocument(t *testing.T) {
	settings, err := config.Load(config.Sources{})
	if err != nil {
		t.Fatal(err)
	}
	a, err := app.New(app.Config{Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	got := api.New(a).Document()
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
		t.Error("docs/openapi.json does not describe the API: go test ./internal/api -run OpenAPI with WATERSHIP_TEST_UPDATE=1 writes it")
	}
}
