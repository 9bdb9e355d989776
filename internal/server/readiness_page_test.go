package server

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// reasons are the functions whose errors are the answer of /readyz and /healthz.
func reasons() map[string][]string {
	return map[string][]string{
		"server.go":                              {"Ready", "brokerError"},
		"index.go":                               {"ready", "progress"},
		"../../pipeline/consumption.go":          {"Unconsumed"},
		"../../pipeline/internal/output/held.go": {"Err"},
		"../../indexer/progress.go":              {"Stalled"},
	}
}

// TestReasonsAreOnThePage finds the texts of these errors on the page of symptoms.
func TestReasonsAreOnThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for file, functions := range reasons() {
		for _, name := range functions {
			for _, text := range errorTexts(t, file, name) {
				found++
				if !strings.Contains(string(page), text) {
					t.Errorf("docs/troubleshooting.md does not have %q, of %s in %s", text, name, file)
				}
			}
		}
	}
	if found < 9 {
		t.Errorf("there are %d reasons", found)
	}
}

// errorTexts returns the longest part without a value of each error that a function makes.
func errorTexts(t *testing.T, file, name string) (texts []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, declaration := range parsed.Decls {
		function, is := declaration.(*ast.FuncDecl)
		if !is || function.Name.Name != name {
			continue
		}
		ast.Inspect(function, func(n ast.Node) bool {
			call, is := n.(*ast.CallExpr)
			if !is {
				return true
			}
			selected, is := call.Fun.(*ast.SelectorExpr)
			if is && (selected.Sel.Name == "Errorf" || selected.Sel.Name == "New") {
				text, err := strconv.Unquote(call.Args[0].(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				texts = append(texts, longest(regexp.MustCompile(`%[a-z]|[:;,] `).Split(text, -1)))
			}
			return true
		})
	}
	if len(texts) == 0 {
		t.Errorf("%s in %s makes no error", name, file)
	}
	return texts
}

func longest(parts []string) (text string) {
	for _, part := range parts {
		if part = strings.TrimSpace(part); len(part) > len(text) {
			text = part
		}
	}
	return text
}
