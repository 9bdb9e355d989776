package architecture

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A program of another module can name each type that the public packages have in their
// exported signatures, fields, methods and embedded types.
func TestPublicPackagesExportNoInternalType(t *testing.T) {
	files, public := exportData(t)
	from := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		if files[path] == "" {
			return nil, fmt.Errorf("no export data of package %s", path)
		}
		return os.Open(files[path])
	})
	for _, path := range public {
		p, err := from.Import(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range internalTypes(p) {
			t.Error(strings.ReplaceAll(found, module+"/", ""))
		}
	}
}

// exportData returns the files with the export data of all packages, by import path, and
// the public packages of this module.
func exportData(t *testing.T) (files map[string]string, public []string) {
	t.Helper()
	list := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Export", "./...")
	list.Dir = "../.."
	var failed bytes.Buffer
	list.Stderr = &failed
	text, err := list.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, failed.String())
	}
	files = map[string]string{}
	for decoder := json.NewDecoder(bytes.NewReader(text)); ; {
		var p struct{ ImportPath, Export string }
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		files[p.ImportPath] = p.Export
		if isPublic(p.ImportPath) && p.Export != "" { // not one of tests alone
			public = append(public, p.ImportPath)
		}
	}
	if len(public) < 5 {
		t.Fatalf("found only the public packages %v", public)
	}
	return files, public
}

func isPublic(path string) bool {
	within, ours := strings.CutPrefix(path, module+"/")
	if !ours {
		return false
	}
	parts := strings.Split(within, "/")
	return !slices.Contains(parts, "internal") && !slices.Contains([]string{"cmd", "scripts"}, parts[0])
}

// internalTypes returns the internal types that a package exports, each with its place.
func internalTypes(p *types.Package) []string {
	w := &exportWalk{in: p, seen: map[types.Type]bool{}}
	for _, name := range p.Scope().Names() {
		if object := p.Scope().Lookup(name); object.Exported() {
			w.object(p.Path()+"."+name, object)
		}
	}
	slices.Sort(w.found)
	return slices.Compact(w.found)
}

// exportWalk visits the types that the exported names of a package lead to.
type exportWalk struct {
	in    *types.Package
	seen  map[types.Type]bool
	found []string
}

func (w *exportWalk) object(place string, object types.Object) {
	if name, is := object.(*types.TypeName); is {
		w.declared(place, name.Type())
		return
	}
	w.typ(place, object.Type())
}

// declared visits the definition of a type of the package.
func (w *exportWalk) declared(place string, t types.Type) {
	if alias, is := t.(*types.Alias); is {
		w.typ(place, alias.Rhs())
		return
	}
	named, is := t.(*types.Named)
	if !is || w.seen[named] {
		return
	}
	w.seen[named] = true
	w.typeParams(place, named.TypeParams())
	w.typ(place, named.Underlying())
	for method := range types.NewMethodSet(types.NewPointer(named)).Methods() {
		if method.Obj().Exported() {
			w.typ(place+"."+method.Obj().Name(), method.Type())
		}
	}
}

// typ visits a type that an exported name uses.
func (w *exportWalk) typ(place string, t types.Type) {
	switch t := t.(type) {
	case *types.Alias:
		w.use(place, t.Obj(), t, t.TypeArgs())
	case *types.Named:
		w.use(place, t.Obj(), t, t.TypeArgs())
	case *types.Struct:
		w.fields(place, t)
	case *types.Signature:
		w.typeParams(place, t.TypeParams())
		w.tuple(place, t.Params())
		w.tuple(place, t.Results())
	case *types.Interface:
		for method := range t.Methods() {
			w.typ(place+"."+method.Name(), method.Type())
		}
		for embedded := range t.EmbeddedTypes() {
			w.typ(place, embedded)
		}
	case *types.Union:
		for term := range t.Terms() {
			w.typ(place, term.Type())
		}
	case *types.Map:
		w.typ(place, t.Key())
		w.typ(place, t.Elem())
	case interface{ Elem() types.Type }: // pointer, slice, array, channel
		w.typ(place, t.Elem())
	}
}

// use visits a type by its name. Types of other public packages are visited there; an
// unexported one of this package shows its fields and methods.
func (w *exportWalk) use(place string, name *types.TypeName, t types.Type, arguments *types.TypeList) {
	for argument := range arguments.Types() {
		w.typ(place, argument)
	}
	switch {
	case name.Pkg() == w.in && !name.Exported():
		w.declared(place, t)
	case name.Pkg() != nil && strings.HasPrefix(name.Pkg().Path(), module+"/") && !isPublic(name.Pkg().Path()):
		w.found = append(w.found, fmt.Sprintf("%s has the type %s.%s", place, name.Pkg().Path(), name.Name()))
	}
}

// fields visits the exported fields of a struct, and the embedded types.
func (w *exportWalk) fields(place string, t *types.Struct) {
	for field := range t.Fields() {
		if field.Exported() || field.Embedded() {
			w.typ(place+"."+field.Name(), field.Type())
		}
	}
}

func (w *exportWalk) tuple(place string, t *types.Tuple) {
	for v := range t.Variables() {
		w.typ(place, v.Type())
	}
}

func (w *exportWalk) typeParams(place string, params *types.TypeParamList) {
	for param := range params.TypeParams() {
		w.typ(place, param.Constraint())
	}
}
