package schemas

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"iter"
)

// StateKeys sign the state that travels with messages (HMAC-SHA-256, RFC 2104), for
// virtual hosts in which others may publish to Watership's exchanges or queues. The
// zero value neither signs nor verifies. ParseStateKeys returns StateKeys with
// keys.
type StateKeys struct {
	keys     [][]byte // the first signs, all verify
	unsigned bool     // accept a state without a signature as well
}

const (
	shortestKey = 32 // bytes, as many as SHA-256 gives

	// unsignedLine is a line in place of a key: states without a signature count as
	// well, until an operator removes the line.
	unsignedLine = "unsigned"
)

// ParseStateKeys parses keys, one per line, of at least 32 bytes each. The first
// key signs and all verify, so a key is replaced in three steps: add the new one as
// the second everywhere, make it the first, remove the old one. With a line
// "unsigned", states without a signature count too, until messages that were
// published without one have arrived.
func ParseStateKeys(text []byte) (StateKeys, error) {
	var k StateKeys
	if len(bytes.TrimSpace(text)) == 0 {
		return StateKeys{}, errors.New("there is no key")
	}
	for n, line := range bytes.Split(bytes.TrimRight(text, "\r\n"), []byte("\n")) {
		switch line = bytes.TrimSpace(line); {
		case string(line) == unsignedLine:
			k.unsigned = true
		case len(line) < shortestKey:
			return StateKeys{}, fmt.Errorf("line %d has %d bytes: expected a key of at least %d, such as of `openssl rand -hex %[3]d`",
				n+1, len(line), shortestKey)
		default:
			k.keys = append(k.keys, bytes.Clone(line))
		}
	}
	if len(k.keys) == 0 {
		return StateKeys{}, errors.New("there is no key")
	}
	return k, nil
}

// Signs reports whether there are keys; Unsigned whether states without a signature
// count as well.
func (k StateKeys) Signs() bool    { return len(k.keys) > 0 }
func (k StateKeys) Unsigned() bool { return !k.Signs() || k.unsigned }

// MACs yields a hash for each key (RFC 2104), the first of which signs.
func (k StateKeys) MACs() iter.Seq[hash.Hash] {
	return func(yield func(hash.Hash) bool) {
		for _, key := range k.keys {
			if !yield(hmac.New(sha256.New, key)) {
				return
			}
		}
	}
}
