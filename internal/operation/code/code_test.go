package code_test

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/operation/code"
)

func TestCodesAreUniqueAndHaveAStatus(t *testing.T) {
	all := code.All()
	if slices.Sort(all); len(slices.Compact(slices.Clone(all))) != len(all) {
		t.Errorf("a code stands twice: %v", all)
	}
	for _, c := range all {
		if general := code.Of(c.Status()); general.Status() != c.Status() {
			t.Errorf("%s has the status %d, whose code %s has another one", c, c.Status(), general)
		}
	}
}

func TestAStatusHasItsGeneralCode(t *testing.T) {
	for status, want := range map[int]code.Code{
		http.StatusNotFound: code.NotFound, http.StatusConflict: code.Conflict, http.StatusServiceUnavailable: code.Unavailable,
		http.StatusTeapot: code.InvalidRequest, http.StatusNotImplemented: code.Internal,
	} {
		if got := code.Of(status); got != want {
			t.Errorf("%d: %s, want %s", status, got, want)
		}
	}
}

func TestTheSchemaHasEachCode(t *testing.T) {
	enum := code.Code("").Schema(nil).Enum
	for _, c := range code.All() {
		if !slices.Contains(enum, any(string(c))) {
			t.Errorf("%s is missing", c)
		}
	}
}

func TestEachCodeIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range code.All() {
		if row := fmt.Sprintf("\n| `%s` | %d | ", c, c.Status()); !strings.Contains(string(page), row) {
			t.Errorf("docs/api.md has no row %q", strings.TrimSpace(row))
		}
	}
}
