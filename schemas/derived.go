package schemas

import (
	"crypto/sha256"
	"encoding/hex"
)

// DerivedID returns the id of an event that follows from another event, so that a
// repetition gives the same document. The id is a short prefix, a colon and the id
// of the other event. If that id does not fit into the 512 bytes, its SHA-256
// replaces it.
func DerivedID(what, of string) string {
	if len(what)+len(":")+len(of) > longestID {
		sum := sha256.Sum256([]byte(of))
		of = hex.EncodeToString(sum[:])
	}
	return what + ":" + of
}
