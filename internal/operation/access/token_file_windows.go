package access

import "io/fs"

// ownedByAnother trusts the access control list of the folder.
func ownedByAnother(fs.FileInfo) bool { return false }
