package architecture

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// untested are the packages of more than mostUntested lines that may have no tests, with the
// reason.
func untested() map[string]string {
	const page = "package console asks for each page with a browser"
	return map[string]string{
		"broker/brokertest":                    "tests use it",
		"eventstore/storetest":                 "tests use it",
		"internal/rabbit/rabbittest":           "tests use it",
		"internal/server/servertest":           "tests use it",
		"internal/wire/wiretest":               "tests use it",
		"internal/wire/header":                 "packages schemas and wire test it with messages and fuzzing",
		"eventstore/elastic/internal/querydsl": "package elastic sends what it builds to Elasticsearch",
		"schemas/internal/headertext":          "package schemas tests it with documents and fuzzing",
		"internal/operation/sse":               "package httpapi tests it with streams of its operations",
		"internal/console/adoptionpage":        page,
		"internal/console/subscriptionpage":    page,
	}
}

const mostUntested = 150 // lines

// Each package of rules has tests of its own, so that a change of a rule is tested in seconds.
func TestPackagesHaveTests(t *testing.T) {
	source, tests := map[string]int{}, map[string]int{}
	eachSource(t, func(dir, path string) error {
		text, err := os.ReadFile(path)
		source[dir] += strings.Count(string(text), "\n")
		return err
	})
	for dir := range source {
		files, err := filepath.Glob(filepath.Join("../..", dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		tests[dir] = len(files)
	}
	for _, found := range withoutTests(source, tests, untested()) {
		t.Error(found)
	}
}

func withoutTests(source, tests map[string]int, listed map[string]string) (found []string) {
	for dir, lines := range source {
		if _, allowed := listed[dir]; lines > mostUntested && tests[dir] == 0 && !allowed {
			found = append(found, fmt.Sprintf("%s has %d lines and no tests: at most %d are possible", dir, lines, mostUntested))
		}
	}
	for dir := range listed {
		if source[dir] <= mostUntested || tests[dir] > 0 {
			found = append(found, dir+" is listed as a package without tests, and needs no exception")
		}
	}
	return found
}

func TestPackagesWithoutTestsAreFound(t *testing.T) {
	source := map[string]int{"large": 151, "small": 150, "tested": 151, "listed": 151, "shrunk": 150, "mended": 151}
	tests := map[string]int{"tested": 1, "mended": 1}
	found := withoutTests(source, tests, map[string]string{"listed": "", "shrunk": "", "mended": "", "gone": ""})
	slices.Sort(found)
	want := map[string]bool{"gone": true, "large": true, "mended": true, "shrunk": true}
	for _, text := range found {
		name, _, _ := strings.Cut(text, " ")
		delete(want, name)
	}
	if len(found) != 4 || len(want) > 0 {
		t.Errorf("found %q, and not %q", found, slices.Collect(maps.Keys(want)))
	}
}
