package architecture

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// rooms returns the folders of internal/ in the order of docs/architecture.md.
func rooms(t *testing.T) []string {
	t.Helper()
	page := read(t, "../../docs/architecture.md")
	_, section, found := strings.Cut(page, "\n## Rooms\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var names []string
	for _, row := range regexp.MustCompile("(?m)^\\| `internal/([a-z]+)` \\| \\S.*\\|$").FindAllStringSubmatch(section, -1) {
		names = append(names, row[1])
	}
	if !found || len(names) < 10 {
		t.Fatalf("docs/architecture.md lists the rooms %q", names)
	}
	return names
}

// A newcomer can read a list of twenty folders, each with its sentence.
func TestRoomsAreListed(t *testing.T) {
	const most = 20
	entries, err := os.ReadDir("..")
	if err != nil {
		t.Fatal(err)
	}
	var folders []string
	for _, e := range entries {
		if e.IsDir() {
			folders = append(folders, e.Name())
		}
	}
	listed := rooms(t)
	slices.Sort(listed)
	if !slices.Equal(folders, listed) {
		t.Errorf("internal/ has the folders %q, docs/architecture.md lists %q", folders, listed)
	}
	if len(folders) > most {
		t.Errorf("internal/ has %d folders, and at most %d are possible", len(folders), most)
	}
}

// Rooms import downwards in the order of their list.
func TestRoomsImportDownwards(t *testing.T) {
	order := rooms(t)
	for _, found := range upwards(list(t), order) {
		t.Error(found)
	}
	if got := upwards(parse("internal/rabbit internal/cli/terminal, internal/cli internal/rabbit, indexer internal/rabbit"), order); len(got) != 1 {
		t.Errorf("one import is upwards, and %q were found", got)
	}
}

func upwards(packages []pkg, order []string) (found []string) {
	for _, p := range packages {
		for _, path := range p.Imports {
			from, to := slices.Index(order, room(p.ImportPath)), slices.Index(order, room(path))
			if from >= 0 && to >= 0 && from > to {
				found = append(found, p.ImportPath+" imports "+path+", which is above it in docs/architecture.md")
			}
		}
	}
	return found
}

// room returns the folder of internal/ that has a package; "" for others.
func room(path string) string {
	within, ours := strings.CutPrefix(path, module+"/internal/")
	if !ours {
		return ""
	}
	name, _, _ := strings.Cut(within, "/")
	return name
}

// An internal package that only one other imports lies below that, unless it is a room.
func TestPackagesLieBelowTheirOnlyImporter(t *testing.T) {
	for _, found := range misplaced(list(t)) {
		t.Error(found)
	}
	wrong := parse("internal/a internal/b/c, internal/a internal/a/d, internal/a internal/e, pipeline pipeline/internal/f, indexer pipeline/internal/g")
	if got := misplaced(wrong); len(got) != 2 {
		t.Errorf("two packages are misplaced, and %q were found", got)
	}
}

func misplaced(packages []pkg) (found []string) {
	importers := map[string][]string{}
	for _, p := range packages {
		for _, path := range p.Imports {
			importers[path] = append(importers[path], p.ImportPath)
		}
	}
	for path, by := range importers {
		slices.Sort(by)
		by = slices.Compact(by)
		within, _ := strings.CutPrefix(path, module+"/")
		isRoom := strings.Count(within, "/") == 1 && strings.HasPrefix(within, "internal/")
		isTests := strings.HasSuffix(path, "test")
		if !strings.Contains("/"+within, "/internal/") || len(by) != 1 || isRoom || isTests {
			continue
		}
		if !strings.HasPrefix(path, by[0]+"/") {
			found = append(found, path+" is imported by "+by[0]+" only, and does not lie below it")
		}
	}
	return found
}

// Internal packages are told from one another by more than a plural or a suffix.
func TestNamesOfPackagesDiffer(t *testing.T) {
	names := map[string]bool{}
	for _, p := range list(t) {
		if strings.Contains(p.ImportPath, "/internal/") {
			names[filepath.Base(p.ImportPath)] = true
		}
	}
	if got := confusable(map[string]bool{"job": true, "jobs": true, "jobpage": true, "page": true}); len(got) != 2 {
		t.Errorf("two names are confusable, and %q were found", got)
	}
	for _, found := range confusable(names) {
		t.Error(found)
	}
}

func confusable(names map[string]bool) (found []string) {
	for name := range names {
		for _, suffix := range []string{"s", "page", "role", "rule", "json"} {
			if names[name+suffix] {
				found = append(found, "the packages "+name+" and "+name+suffix+" have almost the same name")
			}
		}
	}
	return found
}
