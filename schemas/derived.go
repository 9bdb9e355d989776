package schemas

import (
	"crypto/sha256"
	"encoding/hex"
)

// DerivedID is the id of an event that follows from another one, so that a repeat
// is the same document: what, which is to be short, a colon and the other's id. Of
// an id that leaves too little of the 512 bytes its SHA-256 is taken instead.
func DerivedID(what, of string) string {
	if len(what)+len(":")+len(of) > longestID {
		sum := sha256.Sum256([]byte(of))
		of = hex.EncodeToString(sum[:])
	}
	return what + ":" + of
}
