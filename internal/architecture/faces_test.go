package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"strings"
	"testing"
)

// faceless are the operations that no command calls, or no page of the console, with the reason.
func faceless() map[string]map[string]string {
	return map[string]map[string]string{
		"internal/cli": {
			"GetConversation": "a page shows the messages of a conversation as a tree",
			"GetStatus":       "healthcheck asks the process on its machine, and doctor has the findings",
			"ListAdoptions":   "adopt waits for its own adoption",
			"ListFailures":    "failed shows groups, and search the failures",
			"ListFields":      "commands know the fields from the settings of GetVersion",
			"PublishMessage":  "publish sends many messages at once by PublishMessages",
		},
		"internal/console": {
			"CountEvents":        "a histogram counts the same events",
			"CreateSubscription": "a subscription belongs to the deployment of its reader, so that a command creates it",
			"ListExchanges":      "a form takes any exchange, and a message has that of its origin",
			"FindSubject":        "a page shows the dry run of EraseSubject",
			"GetStream":          "messages are listed by the query of their stream",
			"GetVersion":         "pages know the process that serves them",
			"ListWaiting":        "a page shows groups, and its query finds the messages of one",
			"PublishMessages":    "a page publishes one message by PublishMessage",
			"RewriteQuarantine":  "the store asks for a login with more rights than that of serve",
			"WatchReplay":        "the page of a job is refreshed",
		},
	}
}

// Each operation has a command and a place in the console, or a reason why not.
func TestEachOperationHasItsFaces(t *testing.T) {
	sources := operationSources(t)
	declared := declaredOperations(sources)
	if len(declared) < 50 {
		t.Fatalf("%d operations were found", len(declared))
	}
	for face, reasons := range faceless() {
		for _, found := range missingFaces(declared, usedOperations(sources, declared, face), face, reasons) {
			t.Error(found)
		}
	}
}

func missingFaces(declared map[string]string, used map[string]bool, face string, reasons map[string]string) (found []string) {
	names := map[string]bool{}
	for full := range declared {
		name := path.Ext(full)[1:]
		names[name] = true
		switch _, listed := reasons[name]; {
		case !used[full] && !listed:
			found = append(found, face+" does not use "+full+": use it, or list it with the reason")
		case used[full] && listed:
			found = append(found, face+" uses "+full+", which is listed")
		}
	}
	for name := range reasons {
		if !names[name] {
			found = append(found, face+" lists "+name+", which is no operation")
		}
	}
	return found
}

func TestMissingFacesAreFound(t *testing.T) {
	declared := map[string]string{"m/a.Get": "/a", "m/a.List": "/as", "m/a.Tail": "/tail"}
	for _, test := range []struct {
		used    []string
		reasons []string
		want    int
	}{
		{[]string{"m/a.Get", "m/a.List", "m/a.Tail"}, nil, 0},
		{[]string{"m/a.Get", "m/a.List"}, nil, 1},
		{[]string{"m/a.Get", "m/a.List"}, []string{"Tail"}, 0},
		{[]string{"m/a.Get", "m/a.List", "m/a.Tail"}, []string{"Tail"}, 1},
		{[]string{"m/a.Get", "m/a.List", "m/a.Tail"}, []string{"Gone"}, 1},
	} {
		used, reasons := map[string]bool{}, map[string]string{}
		for _, name := range test.used {
			used[name] = true
		}
		for _, name := range test.reasons {
			reasons[name] = "for a test"
		}
		if found := missingFaces(declared, used, "face", reasons); len(found) != test.want {
			t.Errorf("%q, %q: %q, want %d", test.used, test.reasons, found, test.want)
		}
	}
}

// source is a file with the paths of its imports, by name.
type source struct {
	*ast.File
	dir     string
	imports map[string]string
}

// operationSources parses the packages that declare operations, and those that use them.
func operationSources(t *testing.T) (sources []source) {
	t.Helper()
	eachSource(t, func(dir, file string) error {
		dir = module + "/" + dir
		if !under(dir, []string{"internal/operate", "internal/httpapi", "internal/cli", "internal/console"}) {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			return err
		}
		s := source{parsed, dir, map[string]string{}}
		for _, spec := range parsed.Imports {
			imported := strings.Trim(spec.Path.Value, `"`)
			name := path.Base(imported)
			if spec.Name != nil {
				name = spec.Name.Name
			}
			s.imports[name] = imported
		}
		sources = append(sources, s)
		return nil
	})
	return sources
}

// full returns the name that an expression has in other packages: that of a package's own, or of
// an imported one.
func (s source) full(e ast.Node) string {
	switch e := e.(type) {
	case *ast.Ident:
		return s.dir + "." + e.Name
	case *ast.SelectorExpr:
		if of, is := e.X.(*ast.Ident); is && s.imports[of.Name] != "" {
			return s.imports[of.Name] + "." + e.Sel.Name
		}
	}
	return ""
}

// declaredOperations returns the paths of the operations by their full names.
func declaredOperations(sources []source) map[string]string {
	declared := map[string]string{}
	for _, s := range sources {
		ast.Inspect(s.File, func(n ast.Node) bool {
			spec, is := n.(*ast.ValueSpec)
			if !is || len(spec.Values) != 1 {
				return true
			}
			call, is := spec.Values[0].(*ast.CallExpr)
			if !is {
				return true
			}
			if of, is := call.Fun.(*ast.IndexListExpr); is && s.full(of.X) == module+"/internal/operation.Declare" {
				declared[s.full(spec.Names[0])] = pathOf(call)
			}
			return true
		})
	}
	return declared
}

// pathOf returns the path of a declaration.
func pathOf(declaration *ast.CallExpr) (found string) {
	ast.Inspect(declaration, func(n ast.Node) bool {
		if pair, is := n.(*ast.KeyValueExpr); is {
			key, isName := pair.Key.(*ast.Ident)
			if text, isText := pair.Value.(*ast.BasicLit); isName && isText && key.Name == "Path" {
				found = strings.Trim(text.Value, `"`)
			}
		}
		return true
	})
	return found
}

// usedOperations returns the operations that the packages of a face name: the operation itself, a
// function that calls it, or the path of its request.
func usedOperations(sources []source, declared map[string]string, face string) map[string]bool {
	used, byFunction := map[string]bool{}, map[string][]string{}
	for _, s := range sources {
		for _, d := range s.Decls {
			if f, is := d.(*ast.FuncDecl); is && f.Recv == nil && !under(s.dir, []string{"internal/cli", "internal/console"}) {
				ast.Inspect(f, func(n ast.Node) bool {
					if call, is := n.(*ast.SelectorExpr); is && call.Sel.Name == "Call" && declared[s.full(call.X)] != "" {
						byFunction[s.full(f.Name)] = append(byFunction[s.full(f.Name)], s.full(call.X))
					}
					return true
				})
			}
		}
	}
	for _, s := range sources {
		if !under(s.dir, []string{face}) {
			continue
		}
		ast.Inspect(s.File, func(n ast.Node) bool {
			if text, is := n.(*ast.BasicLit); is {
				for name, path := range declared {
					used[name] = used[name] || strings.HasPrefix(text.Value, `"`+path+"?")
				}
			}
			name := ""
			if n != nil {
				name = s.full(n)
			}
			used[name] = true
			for _, through := range byFunction[name] {
				used[through] = true
			}
			return true
		})
	}
	return used
}
