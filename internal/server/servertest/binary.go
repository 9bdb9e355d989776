// Package servertest gives tests an installation: serve with a broker and a store, and the commands
// that use them, as processes of the binary.
package servertest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// WithBuilds runs the tests of a package, and removes the binary after them: it has 50 MB.
func WithBuilds(m *testing.M) int {
	defer func() {
		if folder, err := builds(); err == nil {
			_ = os.RemoveAll(folder)
		}
	}()
	return m.Run()
}

// builds returns the folder of the binary.
var builds = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "watership") })

// Binary is the command under test, built once.
var Binary = sync.OnceValues(func() (string, error) {
	folder, err := builds()
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, "watership")
	out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, "../../cmd/watership").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building the command: %w\n%s", err, out)
	}
	return path, nil
})
