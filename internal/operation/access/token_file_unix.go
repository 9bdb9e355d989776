//go:build unix

package access

import (
	"io/fs"
	"os"
	"syscall"
)

// ownedByAnother reports whether a file or folder belongs neither to root nor to the user
// of this process.
func ownedByAnother(info fs.FileInfo) bool {
	stat, known := info.Sys().(*syscall.Stat_t)
	return known && stat.Uid != 0 && int(stat.Uid) != os.Geteuid()
}
