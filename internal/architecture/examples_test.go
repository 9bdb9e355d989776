package architecture

import (
	"go/ast"
	"go/doc"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"testing"
)

// documentedPackages returns the packages for programs of other modules.
func documentedPackages() []string {
	return []string{
		"broker",
		"pipeline",
		"pipeline/bodyschema",
		"pipeline/pipelinetest",
		"pipeline/transport",
		"pipeline/webhook",
		"rabbitmq",
		"retry",
		"schemas",
		"schemas/tablejson",
		"streamid",
		"privacy",
		"eventstore",
		"eventstore/elastic",
		"eventstore/kql",
		"eventstore/sqlite",
		"indexer",
		"replayer",
		"replayer/edit",
		"subscription",
		"replayer/shadow",
		"replayer/transform",
		"projection",
		"outbox",
	}
}

// Each function of a public package, and each type with methods, has an example that is
// run.
func TestEveryEntryPointHasAnExample(t *testing.T) {
	for _, dir := range documentedPackages() {
		p := documented(t, dir)
		for _, f := range p.Funcs {
			wantExample(t, dir+"."+f.Name, f.Examples)
		}
		for _, typ := range p.Types {
			does := len(typ.Funcs) > 0
			examples := typ.Examples
			for _, f := range slices.Concat(typ.Funcs, typ.Methods) {
				does = does || !slices.Contains([]string{"Error", "ErrorType", "Unwrap", "String"}, f.Name)
				examples = append(examples, f.Examples...)
			}
			if does {
				wantExample(t, dir+"."+typ.Name, examples)
			}
		}
	}
}

func wantExample(t *testing.T, name string, examples []*doc.Example) {
	t.Helper()
	if len(examples) == 0 {
		t.Errorf("%s has no example", name)
	}
	for _, e := range examples {
		if e.Output == "" && !e.EmptyOutput {
			t.Errorf("an example of %s does not say what it prints, and so is not run", name)
		}
	}
}

func documented(t *testing.T, dir string) *doc.Package {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	p, err := doc.NewFromFiles(fset, files, module+"/"+dir)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The comment of a public package has a program, or the heart of one.
func TestPackageCommentsHaveAProgram(t *testing.T) {
	for _, dir := range documentedPackages() {
		p := documented(t, dir)
		parsed := p.Parser().Parse(p.Doc)
		if !slices.ContainsFunc(parsed.Content, func(block comment.Block) bool {
			_, isCode := block.(*comment.Code)
			return isCode
		}) {
			t.Errorf("the comment of package %s has no code", dir)
		}
	}
}
