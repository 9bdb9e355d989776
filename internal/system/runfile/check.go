package runfile

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// UnsafeError refuses a folder or a file that another user may have written, and so
// could redirect the connections of this command.
type UnsafeError struct {
	Path   string
	Reason string
}

func (e *UnsafeError) Error() string {
	return fmt.Sprintf("%s %s: not used", e.Path, e.Reason)
}

// CheckFolder refuses a folder that is a link, or that users other than the one of this
// process may write to.
func CheckFolder(folder string) error {
	info, err := os.Lstat(filepath.Clean(folder))
	switch {
	case err != nil:
		return err
	case info.Mode().Type() == fs.ModeSymlink:
		return &UnsafeError{folder, "is a link"}
	case !info.IsDir():
		return &UnsafeError{folder, "is no directory"}
	}
	return checkOwner(folder, info)
}

// checkFile refuses a link, a special file and a file that other users may write to.
func checkFile(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return &UnsafeError{path, "is no ordinary file"}
	}
	return checkOwner(path, info)
}

// CheckStore refuses the files of an SQLite store that are links, or that other
// users may write to. Files that do not exist are no error. subjectKeys is the path of its keys of
// subjects; "": beside it.
func CheckStore(path, subjectKeys string) error {
	subjectKeys = cmp.Or(subjectKeys, path+".subjects")
	for _, file := range []string{path, path + "-wal", path + "-shm", path + "-journal", subjectKeys, subjectKeys + "-journal"} {
		if _, err := os.Lstat(file); err != nil {
			continue
		}
		if err := checkFile(filepath.Clean(file)); err != nil {
			return err
		}
	}
	return nil
}
