//go:build unix

package runfile

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

type lockKind int

const (
	shared    lockKind = syscall.LOCK_SH
	exclusive lockKind = syscall.LOCK_EX
)

// tryLock locks a file until it is closed (flock(2)).
func tryLock(file *os.File, kind lockKind) error {
	for {
		err := syscall.Flock(int(file.Fd()), int(kind)|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return errLocked
		default:
			return err
		}
	}
}

// removeLock removes the file before its lock: a process that opens the path then
// creates another file.
func removeLock(path string, lock *os.File) error {
	return errors.Join(removeFile(path), lock.Close())
}

func checkOwner(path string, info fs.FileInfo) error {
	stat, known := info.Sys().(*syscall.Stat_t)
	switch {
	case known && int(stat.Uid) != os.Geteuid():
		return &UnsafeError{path, "belongs to another user"}
	case info.Mode().Perm()&0o022 != 0:
		return &UnsafeError{path, "can be written to by other users (chmod go-w)"}
	}
	return nil
}
