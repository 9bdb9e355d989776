package architecture

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestImportRules(t *testing.T) {
	for _, violation := range violations(list(t)) {
		t.Error(violation)
	}
}

// Packages that an HTTP API or a console could use as well know no command line, and
// leave signals to main.
func TestOnlyTheCommandKnowsCobra(t *testing.T) {
	for _, only := range []struct {
		imports []string
		by      string
	}{
		{[]string{"github.com/spf13/cobra", "github.com/spf13/pflag"}, "internal/cli"},
		{[]string{"os/signal"}, "cmd/watership"},
	} {
		found := false
		for _, p := range list(t) {
			knows := slices.ContainsFunc(p.Imports, func(path string) bool { return slices.Contains(only.imports, path) })
			allowed := p.ImportPath == module+"/"+only.by
			if found = found || knows && allowed; knows && !allowed {
				t.Errorf("%s imports %s: only %s does", p.ImportPath, only.imports, only.by)
			}
		}
		if !found {
			t.Errorf("%s does not import %s: the test looks in the wrong place", only.by, only.imports)
		}
	}
}

func TestViolationsAreFound(t *testing.T) {
	for name, test := range map[string]struct {
		imports string // from to, comma-separated
		want    string // the start of the only violation; empty: none
	}{
		"schemas within itself":     {"schemas schemas/jsonscan", ""},
		"schemas of another":        {"schemas retry", "schemas → retry: schemas is the leaf"},
		"part of schemas":           {"schemas/jsonscan internal/config", "schemas/jsonscan → internal/config: schemas is the leaf"},
		"retry of schemas":          {"retry schemas", "retry → schemas: retry decides"},
		"indexer of replayer":       {"indexer replayer", "indexer → replayer: the parts"},
		"pipeline within itself":    {"pipeline pipeline/transport", ""},
		"through a third":           {"replayer internal/x, internal/x pipeline/transport", "replayer → internal/x → pipeline/transport: the parts"},
		"a part of a store":         {"replayer eventstore/elastic", "replayer → eventstore/elastic: a part states"},
		"a store of a part":         {"eventstore/sqlite indexer", "eventstore/sqlite → indexer: a store serves"},
		"the command of everything": {"cmd/watership internal/cli, internal/cli indexer, internal/cli replayer, internal/cli eventstore/elastic", ""},
		"broker of anything":        {"broker internal/rabbit", "broker → internal/rabbit: broker works"},
		"client of a part":          {"internal/rabbit retry", "internal/rabbit → retry: rabbit is a client"},
		"stream of its client":      {"internal/rabbit/amqpstream internal/rabbit", "internal/rabbit/amqpstream → internal/rabbit: amqpstream knows"},
		"anything of the command":   {"internal/x internal/cli", "internal/x → internal/cli: only the command"},
		"Kibana of a part":          {"internal/server/kibana replayer", "internal/server/kibana → replayer: kibana knows"},
		"breaker of a client":       {"pipeline/internal/admission/breaker internal/rabbit", "pipeline/internal/admission/breaker → internal/rabbit: breaker delivers"},
		"topology of a part":        {"internal/topology pipeline/transport", "internal/topology → pipeline/transport: topology declares"},
		"the printer of a part":     {"internal/cli/terminal indexer", "internal/cli/terminal → indexer: terminal prints"},
		"the suite outside tests":   {"eventstore/elastic eventstore/storetest", "eventstore/elastic → eventstore/storetest: the suite"},
		"projection of a store":     {"projection eventstore/sqlite", "projection → eventstore/sqlite: projection reads"},
		"projection of a reader":    {"projection subscription", ""},
		"outbox of events":          {"outbox projection", "outbox → projection: outbox is"},
		"outbox of a route":         {"outbox pipeline", ""},
		"database of a part":        {"internal/database projection", "internal/database → projection: database knows"},
		"the servers outside tests": {"outbox internal/database/databasetest", "outbox → internal/database/databasetest: the databases"},
		"a name that only begins":   {"schemas indexerx, pipelinex eventstore/elastic", "schemas → indexerx: schemas is the leaf"},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.ReplaceAll(strings.Join(violations(parse(test.imports)), "\n"), module+"/", "")
			if test.want == "" && got != "" || !strings.HasPrefix(got, test.want) || strings.Contains(got, "\n") {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func parse(imports string) []pkg {
	var packages []pkg
	for pair := range strings.SplitSeq(imports, ", ") {
		from, to, _ := strings.Cut(pair, " ")
		packages = append(packages, pkg{module + "/" + from, []string{module + "/" + to}})
	}
	return merge(packages)
}

func merge(packages []pkg) []pkg {
	var merged []pkg
	at := map[string]int{}
	for _, p := range packages {
		i, found := at[p.ImportPath]
		if !found {
			at[p.ImportPath] = len(merged)
			merged = append(merged, p)
			continue
		}
		merged[i].Imports = append(merged[i].Imports, p.Imports...)
	}
	return merged
}

// list reads the imports of every package of the module, tests left out. It opens
// the files itself, and so the test's result is not cached when one changes.
func list(t *testing.T) []pkg {
	t.Helper()
	var packages []pkg
	eachSource(t, func(dir, path string) error {
		imports, err := importsOf(path)
		packages = append(packages, pkg{module + "/" + dir, imports})
		return err
	})
	if packages = merge(packages); len(packages) < 5 {
		t.Fatalf("found only %d packages", len(packages))
	}
	return packages
}

// eachSource calls do with each Go file of the module but tests, and its package's folder.
func eachSource(t *testing.T, do func(dir, path string) error) {
	t.Helper()
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "testdata" || strings.HasPrefix(entry.Name(), ".") && entry.Name() != ".."):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		return do(filepath.ToSlash(filepath.Dir(strings.TrimPrefix(path, "../../"))), path)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func importsOf(file string) ([]string, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, spec := range parsed.Imports {
		paths = append(paths, strings.Trim(spec.Path.Value, `"`))
	}
	return paths, nil
}
