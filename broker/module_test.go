package broker_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// docs/broker.md shows a test of that module, word for word.
func TestThePageShowsTheModule(t *testing.T) {
	page, err := os.ReadFile("../docs/broker.md")
	if err != nil {
		t.Fatal(err)
	}
	service, err := os.ReadFile("testdata/module/service_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```").FindAllSubmatch(page, -1)
	if !slices.ContainsFunc(blocks, func(block [][]byte) bool { return bytes.Contains(service, block[1]) }) {
		t.Errorf("none of the %d Go blocks of docs/broker.md is in testdata/module/service_test.go", len(blocks))
	}
}

// A module of its own, outside this one, tests its service with the broker and the
// suite.
func TestUseFromAnotherModule(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	_, requirements, _ := strings.Cut(string(own), "\n\n")
	dir := t.TempDir()
	module := fmt.Sprintf("module example.com/service\n\n%s\nrequire github.com/watershipmq/watership v0.0.0\n\nreplace github.com/watershipmq/watership => %s\n",
		requirements, root)
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(module), 0o600); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{"../go.sum": "go.sum", "testdata/module/service_test.go": "service_test.go"} {
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, to), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	test := exec.CommandContext(t.Context(), "go", "test", "-run", "TestOrders|TestBroker/queues", ".")
	test.Dir = dir
	test.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
	if out, err := test.CombinedOutput(); err != nil {
		t.Errorf("go test: %v\n%s", err, out)
	}
}
