package runfile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/watershipmq/watership/internal/backoff"
)

// Folder is a data folder that this process has locked.
type Folder struct {
	path string
	lock *os.File
}

// LockedError is returned for a folder that another process has locked.
type LockedError struct {
	Folder  string
	Running Running // zero if the process has not announced it yet
}

func (e *LockedError) Error() string {
	if e.Running.PID == 0 {
		return "another watership runs in " + e.Folder
	}
	return fmt.Sprintf("another watership runs in %s, process %d", e.Folder, e.Running.PID)
}

// Acquire makes a folder if none exists, and locks it for this process, until
// Release or the end of the process. It removes the file of an earlier process. Its
// error is a *HeldError if another process has locked the folder.
func Acquire(ctx context.Context, path string) (*Folder, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("making the data folder: %w", err)
	}
	if err := CheckFolder(path); err != nil {
		return nil, err
	}
	lock, err := acquireLock(ctx, filepath.Join(path, lockName))
	if errors.Is(err, errLocked) {
		running, _ := Read(path) // which may not be announced yet
		return nil, &LockedError{path, running}
	}
	if err != nil {
		return nil, fmt.Errorf("locking the data folder %s: %w", path, err)
	}
	f := &Folder{path, lock}
	if err := removeFile(filepath.Join(path, fileName)); err != nil {
		return nil, errors.Join(err, f.Release())
	}
	return f, nil
}

// errLocked is returned for a lock of another process.
var errLocked = errors.New("locked by another process")

const lockRetryInterval = time.Millisecond

// acquireLock opens and locks a file. A command that only reads holds a shared lock
// for a moment, so acquireLock tries again.
func acquireLock(ctx context.Context, path string) (*os.File, error) {
	for ctx.Err() == nil {
		if err := checkFile(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		switch err := tryLock(file, exclusive); {
		case err == nil && leadsTo(path, file):
			return file, nil
		case err != nil && !errors.Is(err, errLocked):
			return nil, errors.Join(err, file.Close())
		case err != nil:
			if err := tryLock(file, shared); err != nil { // the lock is exclusive
				return nil, errors.Join(err, file.Close())
			}
		}
		_ = file.Close() // the file was removed, or readers had locked it
		_ = backoff.Sleep(ctx, lockRetryInterval)
	}
	return nil, ctx.Err()
}

// isLocked reports whether a process has an exclusive lock on a file.
func isLocked(path string) (bool, error) {
	err := checkFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return false, err
	}
	defer file.Close()
	err = tryLock(file, shared)
	if errors.Is(err, errLocked) {
		return true, nil
	}
	return false, err
}

// leadsTo reports whether a path leads to an open file.
func leadsTo(path string, file *os.File) bool {
	named, err := os.Lstat(path)
	if err != nil {
		return false
	}
	opened, err := file.Stat()
	return err == nil && os.SameFile(named, opened)
}

// Announce writes the addresses of this process. Readers find the file complete or
// not at all.
func (f *Folder) Announce(r Running) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(f.path, fileName)
	if err := writeNewFile(path+".new", append(text, '\n')); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return os.Rename(path+".new", path)
}

// writeNewFile creates and writes a file, so that it never writes through a link.
func writeNewFile(path string, text []byte) error {
	if err := removeFile(path); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Close())
}

// Gone reports whether the folder was deleted or replaced, so that no other process
// finds the files of this one.
func (f *Folder) Gone() bool { return !leadsTo(filepath.Join(f.path, lockName), f.lock) }

// Release unlocks the folder, and removes the files of this package from it.
func (f *Folder) Release() error {
	if f.Gone() { // the files there belong to another process
		return f.lock.Close()
	}
	return errors.Join(
		removeFile(filepath.Join(f.path, fileName)),
		removeLock(filepath.Join(f.path, lockName), f.lock),
	)
}

func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
