package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A time is formatted for people by the face that shows it, since only the face knows the zone of its
// reader. Other packages return times, and write those of logs, documents and stored texts as
// RFC 3339.
func TestTimesAreFormattedByFaces(t *testing.T) {
	faces := []string{"internal/cli/", "internal/console/", "cmd/", "projection/main.go"}
	machine := []string{
		"eventstore/aggregation.go", "eventstore/kql/", "internal/wire/publishtime/", "retry/window.go", "internal/operate/adoptions/", // as Elasticsearch and other programs write and read dates
		"eventstore/storetest/", "internal/rabbit/rabbittest/", "internal/server/servertest/", "internal/system/systemtest/",
	}
	layouts := []string{"DateTime", "DateOnly", "TimeOnly", "Kitchen", "ANSIC", "UnixDate", "RubyDate", "RFC822", "RFC822Z", "RFC850", "RFC1123", "RFC1123Z", "Stamp", "StampMilli", "StampMicro"}
	shown := 0
	files := token.NewFileSet()
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if generated(entry) {
			return filepath.SkipDir
		}
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		name := strings.TrimPrefix(filepath.ToSlash(path), "../../")
		begins := func(folder string) bool { return strings.HasPrefix(name, folder) }
		if slices.ContainsFunc(machine, begins) {
			return nil
		}
		isFace := slices.ContainsFunc(faces, begins)
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			found := ""
			switch n := n.(type) {
			case *ast.BasicLit:
				if n.Kind == token.STRING && strings.Contains(n.Value, "15:04") {
					found = "the layout " + n.Value
				}
			case *ast.SelectorExpr:
				if of, is := n.X.(*ast.Ident); is && of.Name == "time" && slices.Contains(layouts, n.Sel.Name) {
					found = "the layout time." + n.Sel.Name
				}
			case *ast.CallExpr:
				if to, is := n.Fun.(*ast.SelectorExpr); is && to.Sel.Name == "Local" && len(n.Args) == 0 {
					found = "a time in the zone of the process"
				}
			}
			switch {
			case found == "":
			case isFace:
				shown++
			default:
				t.Errorf("%s has %s: return the time, which internal/cli and internal/console format", files.Position(n.Pos()), found)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if shown < 5 {
		t.Errorf("faces format times in %d places", shown)
	}
}
