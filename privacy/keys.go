package privacy

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
)

const keySize = 32 // bytes, of AES-256 and of HMAC-SHA-256

// Keys gives the keys that seal the originals of redacted messages and open them. An implementation
// on a key management service keeps the keys that it has fetched, and fetches the next in the
// background: both methods are called for each message, and must not block.
type Keys interface {
	// Newest returns the key that seals, of 32 bytes, and its id, of up to 255. If it fails, New fails;
	// later on, the original of the message is not kept.
	Newest() (id string, key []byte, err error)

	// Key returns the key with an id, also a former one.
	Key(id string) (key []byte, err error)
}

// ParseKeys parses keys of sealed originals, one a line: a name, and 32 bytes in hexadecimal
// digits. The first seals and all open, so that a key is replaced by a new first line, and what is
// stored stays as it is.
func ParseKeys(text []byte) (Keys, error) {
	var keys fileKeys
	for n, line := range lines(text) {
		name, digits, _ := bytes.Cut(line, []byte(" "))
		key, err := parseKey(bytes.TrimSpace(digits))
		switch {
		case !isKeyName.Match(name) || err != nil:
			return nil, fmt.Errorf("line %d: expected a name, a space and %d hexadecimal digits, such as of `openssl rand -hex %d`", n+1, 2*keySize, keySize)
		case keys.index(string(name)) >= 0:
			return nil, fmt.Errorf("line %d: %q is the name of another key", n+1, name)
		}
		keys = append(keys, fileKey{string(name), key})
	}
	if len(keys) == 0 {
		return nil, errors.New("there is no key")
	}
	return keys, nil
}

// ParseHashKeys parses keys of keyed hashes, one a line, of 32 bytes in hexadecimal digits. The
// first makes hashes. Values that were hashed by the others are found by them.
func ParseHashKeys(text []byte) (keys [][]byte, err error) {
	for n, line := range lines(text) {
		key, err := parseKey(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: expected %d hexadecimal digits, such as of `openssl rand -hex %d`", n+1, 2*keySize, keySize)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("there is no key")
	}
	return keys, nil
}

var isKeyName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

func lines(text []byte) (list [][]byte) {
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			list = append(list, line)
		}
	}
	return list
}

func parseKey(digits []byte) ([]byte, error) {
	key, err := hex.DecodeString(string(digits))
	if err == nil && len(key) != keySize {
		err = hex.ErrLength
	}
	return key, err
}

// fileKeys are keys of a file, the newest first.
type fileKeys []fileKey

type fileKey struct {
	name string
	key  []byte
}

func (keys fileKeys) Newest() (id string, key []byte, err error) {
	return keys[0].name, keys[0].key, nil
}

func (keys fileKeys) Key(id string) ([]byte, error) {
	if i := keys.index(id); i >= 0 {
		return keys[i].key, nil
	}
	return nil, fmt.Errorf("there is no key %q", id)
}

func (keys fileKeys) index(name string) int {
	for i, k := range keys {
		if k.name == name {
			return i
		}
	}
	return -1
}
