package wire

import (
	"crypto/sha256"
	"encoding/hex"
)

// DerivedID returns the id of an event that follows from another event, so that a
// repetition gives the same document. The id is a short prefix, a colon and the id
// of the other event. If that id does not fit into the 512 bytes, its SHA-256
// replaces it.
func DerivedID(prefix, id string) string {
	if len(prefix)+len(":")+len(id) > longestID {
		sum := sha256.Sum256([]byte(id))
		id = hex.EncodeToString(sum[:])
	}
	return prefix + ":" + id
}
