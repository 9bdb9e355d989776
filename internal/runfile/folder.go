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
)

// Folder is a data folder that this process alone runs on.
type Folder struct {
	path string
	lock *os.File
}

// HeldError says that another process runs on a folder.
type HeldError struct {
	Folder  string
	Running Running // as far as it says
}

func (e *HeldError) Error() string {
	if e.Running.PID == 0 {
		return "another watership runs in " + e.Folder
	}
	return fmt.Sprintf("another watership runs in %s, process %d", e.Folder, e.Running.PID)
}

// Acquire makes a folder where there is none, and takes it for this process, until
// Release or the end of the process. What an earlier process left there is removed.
// Its error is a *HeldError where another process has the folder.
func Acquire(ctx context.Context, path string) (*Folder, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("making the data folder: %w", err)
	}
	if err := Check(path); err != nil {
		return nil, err
	}
	lock, err := acquireLock(ctx, filepath.Join(path, lockName))
	if errors.Is(err, errHeld) {
		running, _ := Read(path) // it may not have said yet
		return nil, &HeldError{path, running}
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

// errHeld is of a lock that another process has.
var errHeld = errors.New("locked by another process")

const lockPause = time.Millisecond

// acquireLock opens and locks a file. A command that only looks holds the lock
// for a moment, shared.
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
		case err == nil && names(path, file):
			return file, nil
		case err != nil && !errors.Is(err, errHeld):
			return nil, errors.Join(err, file.Close())
		case err != nil:
			if err := tryLock(file, shared); err != nil { // its owner has it, not one who looks
				return nil, errors.Join(err, file.Close())
			}
		}
		_ = file.Close() // its owner has just removed it, or others were looking
		select {
		case <-time.After(lockPause):
		case <-ctx.Done():
		}
	}
	return nil, ctx.Err()
}

// isLocked says whether a process has taken a lock.
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
	if errors.Is(err, errHeld) {
		return true, nil
	}
	return false, err
}

// names says whether a path is that of an open file.
func names(path string, file *os.File) bool {
	there, err := os.Lstat(path)
	if err != nil {
		return false
	}
	opened, err := file.Stat()
	return err == nil && os.SameFile(there, opened)
}

// Announce says where everything is. The file is complete or absent for its readers.
func (f *Folder) Announce(r Running) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(f.path, fileName)
	if err := writeNew(path+".new", append(text, '\n')); err != nil {
		return fmt.Errorf("saying in the data folder what runs: %w", err)
	}
	return os.Rename(path+".new", path)
}

// writeNew writes a file that it makes, so that it never writes through a link.
func writeNew(path string, text []byte) error {
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

// Gone says whether the folder was deleted or replaced, so that what is written
// now is lost.
func (f *Folder) Gone() bool { return !names(filepath.Join(f.path, lockName), f.lock) }

// Release gives the folder back, and leaves nothing of this package in it.
func (f *Folder) Release() error {
	if f.Gone() { // whatever is there now is another's
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
