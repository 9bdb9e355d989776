package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// literals calls each with every string literal of the module's code outside tests.
func literals(t *testing.T, each func(path string, at token.Position, text string)) {
	t.Helper()
	files := token.NewFileSet()
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if generated(entry) {
			return filepath.SkipDir
		}
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				text, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Error(err)
				}
				each(strings.TrimPrefix(filepath.ToSlash(path), "../../"), files.Position(literal.Pos()), text)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A package for programs of others names the programs that run beside it, such as watership serve, and no command of
// an operator: who has called it may be a page, a request or a program in Go.
func TestCommandsAreNamedByFaces(t *testing.T) {
	command := regexp.MustCompile(`watership (adopt|doctor|failed|jobs|quarantine|replay|routes|search|show|subscriptions|waiting)\b [^.]`)
	literals(t, func(path string, at token.Position, text string) {
		if strings.HasPrefix(path, "internal/") || strings.HasPrefix(path, "scripts/") || strings.HasPrefix(path, "cmd/") {
			return
		}
		if command.MatchString(text) {
			t.Errorf("%s: %q names a command: say what to do, and let internal/cli name the command", at, text)
		}
	})
}

// Only a command has flags. The API, the pages and packages for programs of others return errors
// and findings as values, and each face has its own names for what a caller can give.
func TestFlagsAreNamedByCommands(t *testing.T) {
	flag := regexp.MustCompile(`(^|[\s"(])--[a-z][a-z-]*\b`)
	ours := regexp.MustCompile("rabbitmqctl |curl |--data-urlencode ")
	commands := []string{
		"internal/cli/", "cmd/", "internal/server/servertest/",
		"internal/operation/remedy/",   // renders command lines from values
		"projection/main.go",           // the command of a projection
		"internal/console/commands.go", // command lines to copy
		"internal/console/view/replaypage/command.go",
		"internal/console/validationpage/",
		"internal/rabbit/rabbittest/", "scripts/",
	}
	named := 0
	literals(t, func(path string, at token.Position, text string) {
		if !flag.MatchString(text) {
			return
		}
		for _, folder := range commands {
			if strings.HasPrefix(path, folder) {
				named++
				return
			}
		}
		if !ours.MatchString(text) {
			t.Errorf("%s: %q names a flag: return a value, for which internal/cli has the words", at, text)
		}
	})
	if named < 100 {
		t.Errorf("commands name %d flags", named)
	}
}
