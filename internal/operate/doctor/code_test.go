package doctor

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
)

// declared returns the constants of a type, sorted.
func declared(t *testing.T, file, name string) (texts []string) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if !is {
			return true
		}
		if kind, is := spec.Type.(*ast.Ident); is && kind.Name == name {
			text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, text)
		}
		return true
	})
	return slices.Sorted(slices.Values(texts))
}

func inSchema(s *huma.Schema) (texts []string) {
	for _, value := range s.Enum {
		texts = append(texts, value.(string))
	}
	return slices.Sorted(slices.Values(texts))
}

func TestTheAPIListsEachCodeAndCheck(t *testing.T) {
	if want, got := declared(t, "code.go", "Code"), inSchema(NoProblem.Schema(nil)); len(want) < 70 || !slices.Equal(got, want) {
		t.Errorf("the API lists %q, and doctor has %q", got, want)
	}
	if want, got := declared(t, "check.go", "Check"), inSchema(AlertsCheck.Schema(nil)); len(want) < 30 || !slices.Equal(got, want) {
		t.Errorf("the API lists %q, and doctor has %q", got, want)
	}
}

// Each check is a heading of the page, and below it each of its codes is a row with what to do.
func TestEachCodeHasACheckAndIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	_, findings, _ := strings.Cut(string(text), "\n## Findings of doctor\n")
	documented := 0
	for _, c := range Codes() {
		if c == NoProblem {
			continue
		}
		_, section, _ := strings.Cut(findings, "\n### "+c.check().Text()+"\n")
		section, _, _ = strings.Cut(section, "\n### ")
		row := regexp.MustCompile("(?m)^\\| `" + string(c) + "` \\| [^|]+ \\| [^|]+ \\|$")
		switch {
		case c.check() == "":
			t.Errorf("%s has no check", c)
		case !row.MatchString(section):
			t.Errorf("docs/troubleshooting.md does not say below the heading %q what to do about %s", c.check().Text(), c)
		}
		documented++
	}
	if rows := strings.Count(findings, "\n| `"); rows != documented {
		t.Errorf("docs/troubleshooting.md has %d rows, and doctor %d codes", rows, documented)
	}
}

func TestFindingsHaveCodes(t *testing.T) {
	var list findingList
	list.report(DeadLettersAtMostOnce, Warning, "at most once", "")
	list.reportOK(DelaysCheck, "no delay is stuck")
	for i, want := range []Finding{
		{Check: DeadLettersCheck, Code: DeadLettersAtMostOnce, Verdict: Warning, Detail: "at most once"},
		{Check: DelaysCheck, Code: NoProblem, Verdict: OK, Detail: "no delay is stuck"},
	} {
		if list.findings[i] != want {
			t.Errorf("%+v, want %+v", list.findings[i], want)
		}
	}
}
