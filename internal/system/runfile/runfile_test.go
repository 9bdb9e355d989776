package runfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

func here() Running {
	return Running{PID: os.Getpid(), Instance: "a", AMQP: "amqp://guest:guest@127.0.0.1:5672", Management: "http://guest:guest@127.0.0.1:15672", Store: "sqlite:/x/store.db", Config: "/x/watership.yaml"}
}

// A process is found by its folder, while it runs.
func TestFound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "data")
	if _, err := Read(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
	folder, err := Acquire(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil || errors.Is(err, ErrNotRunning) {
		t.Errorf("before it says where it is: %v", err)
	}
	if err := folder.Announce(here()); err != nil {
		t.Fatal(err)
	}
	if r, err := Read(path); err != nil || r != here() {
		t.Errorf("%+v, %v", r, err)
	}
	var held *LockedError
	if _, err := Acquire(t.Context(), path); !errors.As(err, &held) || held.Running != here() {
		t.Errorf("taken twice: %v", err)
	}
	if err := folder.Release(); err != nil {
		t.Error(err)
	}
	if _, err := Read(path); !errors.Is(err, ErrNotRunning) {
		t.Errorf("after its end: %v", err)
	}
	if files, err := os.ReadDir(path); err != nil || len(files) > 0 {
		t.Errorf("%v are left, %v", files, err)
	}
}

// The file of a killed process is ignored, and removed by the next process.
func TestFileOfAKilledProcess(t *testing.T) {
	path := t.TempDir()
	if err := (&Folder{path: path}).Announce(here()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(path, lockName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); !errors.Is(err, ErrNotRunning) {
		t.Errorf("it is found: %v", err)
	}
	folder, err := Acquire(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Release()
	if _, err := os.Stat(filepath.Join(path, fileName)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file of another process is there: %v", err)
	}
}

// Of many processes that read and lock a folder at once, one has it at a time.
func TestOneAtATime(t *testing.T) {
	path := t.TempDir()
	var work sync.WaitGroup
	var mu sync.Mutex
	has, taken := 0, 0
	for range 8 {
		work.Go(func() {
			for range 50 {
				folder, err := Acquire(t.Context(), path)
				var held *LockedError
				if errors.As(err, &held) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if has++; has > 1 {
					t.Error("two have it")
				}
				mu.Unlock()
				runtime.Gosched()
				mu.Lock()
				taken++
				has--
				mu.Unlock()
				if err := folder.Release(); err != nil {
					t.Error(err)
				}
			}
		})
		work.Go(func() {
			for range 50 {
				if _, err := Read(path); err == nil {
					t.Error("nobody has said where it is, and it is found")
				}
			}
		})
	}
	work.Wait()
	if taken == 0 {
		t.Error("nobody had it")
	}
}

func TestGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	folder, err := Acquire(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if folder.Gone() {
		t.Error("gone from the beginning")
	}
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	if !folder.Gone() {
		t.Error("deleted, and not gone")
	}
	other, err := Acquire(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Release()
	if !folder.Gone() {
		t.Error("replaced, and not gone")
	}
	if err := folder.Release(); err != nil {
		t.Error(err)
	}
	if other.Gone() {
		t.Error("the one has taken the other's folder away")
	}
}

// A file with any address outside of this machine is refused.
func TestParse(t *testing.T) {
	for _, text := range []string{
		`{"instance": "a", "amqp": "amqp://guest:guest@198.51.100.7:5672", "management": "http://127.0.0.1:1"}`,
		`{"instance": "a", "amqp": "amqp://localhost:5672", "management": "http://127.0.0.1:1"}`, // whatever that is
		`{"instance": "a", "amqp": "amqp://127.0.0.1:5672", "management": "http://198.51.100.7:1"}`,
		`{"instance": "a", "amqp": "amqp://127.0.0.1:5672", "management": "http://127.0.0.1:1", "store": "http://127.0.0.1:9200"}`,
		`{"instance": "a", "amqp": "amqp://127.0.0.1:5672", "management": "http://127.0.0.1:1", "store": "sqlite:store.db"}`,
		`{"instance": "a", "amqp": "amqp://127.0.0.1:5672", "management": "http://127.0.0.1:1", "config": "watership.yaml"}`,
		`{"amqp": "amqp://127.0.0.1:5672", "management": "http://127.0.0.1:1"}`,
		`{"instance": "a", "amqp": "amqps://127.0.0.1:5672", "management": "http://127.0.0.1:1"}`,
		`{"instance": "a", "amqp": "amqp://127.0.0.1", "management": "http://127.0.0.1:1"}`,
	} {
		if r, err := parse([]byte(text)); err == nil {
			t.Errorf("%s: %+v", text, r)
		}
	}
}
