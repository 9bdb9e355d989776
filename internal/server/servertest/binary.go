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
	var err error
	if builds, err = os.MkdirTemp("", "watership"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(builds)
	return m.Run()
}

// builds is the folder of the binary.
var builds string

// Binary is the command under test, built once.
var Binary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(builds, "watership")
	out, err := exec.Command("go", "build", "-o", path, "../../cmd/watership").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building the command: %w\n%s", err, out)
	}
	return path, nil
})
