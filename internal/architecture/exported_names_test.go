package architecture

import (
	"go/ast"
	"testing"
)

// Every program that uses Watership reads the documentation of schemas first, so it has
// the nouns of a message's life and little else. A name that one package alone uses
// belongs in that package; an operation on a type is a method of it.
func TestSchemasExportsFewNames(t *testing.T) {
	const most = 40
	p := documented(t, "schemas")
	names := len(p.Funcs)
	values := func(specs []ast.Spec) {
		for _, spec := range specs {
			for _, name := range spec.(*ast.ValueSpec).Names {
				if name.IsExported() {
					names++
				}
			}
		}
	}
	for _, group := range append(p.Consts, p.Vars...) {
		values(group.Decl.Specs)
	}
	for _, typ := range p.Types {
		names += 1 + len(typ.Funcs)
		for _, group := range append(typ.Consts, typ.Vars...) {
			values(group.Decl.Specs)
		}
	}
	if names > most || names < most/2 {
		t.Errorf("schemas exports %d names, at most %d should be", names, most)
	}
}
