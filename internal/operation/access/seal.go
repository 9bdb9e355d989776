package access

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
)

// sealer encrypts the values of cookies, so that a client can neither read nor change
// them. The first key seals, and all keys open.
type sealer struct{ keys []cipher.AEAD }

// minimumKey is the length of the shortest key, in bytes.
const minimumKey = 32

// ParseSessionKeys parses keys, one per line, of at least 32 bytes each.
func ParseSessionKeys(text []byte) ([][]byte, error) {
	var keys [][]byte
	for n, line := range bytes.Split(bytes.TrimSpace(text), []byte("\n")) {
		line = bytes.TrimSpace(line)
		if len(line) < minimumKey {
			return nil, fmt.Errorf("line %d has %d bytes: expected a key of at least %d, such as of `openssl rand -hex %[3]d`", n+1, len(line), minimumKey)
		}
		keys = append(keys, line)
	}
	return keys, nil
}

// newSealer derives the keys of a sealer. Without keys, it makes one that no other process
// has.
func newSealer(keys [][]byte) (sealer, error) {
	if len(keys) == 0 {
		random := make([]byte, minimumKey)
		_, _ = rand.Read(random) // never fails
		keys = [][]byte{random}
	}
	var s sealer
	for _, key := range keys {
		derived, err := hkdf.Key(sha256.New, key, nil, "watership cookies 1", 32)
		if err != nil {
			return sealer{}, fmt.Errorf("deriving the key of sessions: %w", err)
		}
		block, err := aes.NewCipher(derived)
		if err != nil {
			return sealer{}, fmt.Errorf("deriving the key of sessions: %w", err)
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return sealer{}, fmt.Errorf("deriving the key of sessions: %w", err)
		}
		s.keys = append(s.keys, aead)
	}
	return s, nil
}

// seal encrypts a value for a purpose. A value that is sealed for one purpose does not open
// for another.
func (s sealer) seal(purpose string, value any) (string, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(s.keys[0].Seal(nil, nil, text, []byte(purpose))), nil
}

var errSeal = errors.New("the cookie was not made by this server, or its key was replaced")

// open decrypts a value.
func (s sealer) open(purpose, sealed string, into any) error {
	content, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil {
		return errSeal
	}
	for _, key := range s.keys {
		if text, err := key.Open(nil, nil, content, []byte(purpose)); err == nil {
			return json.Unmarshal(text, into)
		}
	}
	return errSeal
}
