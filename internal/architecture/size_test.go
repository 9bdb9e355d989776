package architecture

import (
	"bufio"
	"os"
	"strings"
	"testing"
)

// The limits of a package, tests left out. Lines are lines of code: blank ones and
// comments are not counted, so that nobody saves documentation.
const (
	maxFiles = 30
	maxLines = 2500
)

// A package within the limits can be read in one sitting.
func TestPackagesAreSmall(t *testing.T) {
	larger := map[string]string{
		"broker":            "implements AMQP 0-9-1 and the management API as one state machine",
		"broker/brokertest": "has the cases of the suite",
		"internal/cli":      "has a file for each command",
	}
	sizes := packageSizes(t)
	for dir, s := range sizes {
		if _, allowed := larger[dir]; !allowed && (s.files > maxFiles || s.lines > maxLines) {
			t.Errorf("%s has %d files and %d lines of code, want at most %d and %d", dir, s.files, s.lines, maxFiles, maxLines)
		}
	}
	if sizes["broker"].lines < maxLines {
		t.Errorf("broker has %d lines: the test counts wrongly", sizes["broker"].lines)
	}
}

type size struct{ files, lines int }

func packageSizes(t *testing.T) map[string]size {
	t.Helper()
	sizes := map[string]size{}
	eachSource(t, func(dir, path string) error {
		lines, err := linesOfCode(path)
		sizes[dir] = size{sizes[dir].files + 1, sizes[dir].lines + lines}
		return err
	})
	return sizes
}

func linesOfCode(path string) (n int, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if line := strings.TrimSpace(lines.Text()); line != "" && !strings.HasPrefix(line, "//") {
			n++
		}
	}
	return n, lines.Err()
}
