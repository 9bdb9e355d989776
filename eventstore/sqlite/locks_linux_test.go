package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Install keeps the locks of the connections to a file: without them another program would
// delete the write-ahead log of a running process.
func TestInstallKeepsTheLocks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	if err := installed(t, Config{Path: path}).Close(); err != nil {
		t.Fatal(err)
	}
	s := open(t, Config{Path: path})
	create(t, s, eventDocuments("", 1, 1)...)
	held := func() bool {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		locks, err := os.ReadFile("/proc/locks")
		if err != nil {
			t.Skip(err)
		}
		inode := fmt.Sprintf(":%d ", info.Sys().(*syscall.Stat_t).Ino)
		for line := range strings.Lines(string(locks)) {
			if strings.Contains(line, inode) && strings.Contains(line, fmt.Sprintf(" %d ", os.Getpid())) {
				return true
			}
		}
		return false
	}
	if !held() {
		t.Skip("the locks of this process are not listed")
	}
	if err := s.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !held() {
		t.Error("Install has released the locks of the connections")
	}
}
