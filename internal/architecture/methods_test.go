package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A type with more methods than this has more than one subject. The embedded broker and
// its suite are excepted, because they implement one protocol.
const mostMethods = 25

func TestTypesHaveFewMethods(t *testing.T) {
	counted := methodsByType(t, "../..")
	for _, name := range slices.Sorted(maps.Keys(counted)) {
		if n := len(counted[name]); n > mostMethods {
			t.Errorf("%s has %d methods, and at most %d are possible: a part of its state with the methods on it is a type", name, n, mostMethods)
		}
	}
	if len(counted["eventstore/sqlite.reader"]) == 0 {
		t.Error("no methods of eventstore/sqlite.reader were counted")
	}
}

// methodsByType returns the names of the methods that each type declares outside tests.
func methodsByType(t *testing.T, root string) map[string]map[string]bool {
	t.Helper()
	counted := map[string]map[string]bool{}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if generated(e) {
			return filepath.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil || strings.HasPrefix(dir, "broker") {
			return err
		}
		for _, d := range file.Decls {
			if f, is := d.(*ast.FuncDecl); is && f.Recv != nil {
				name := filepath.ToSlash(dir) + "." + receiver(f.Recv.List[0].Type)
				if counted[name] == nil {
					counted[name] = map[string]bool{}
				}
				counted[name][f.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return counted
}

// receiver returns the name of the type of a receiver, without pointer and parameters.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
