package privacy

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// A sealed original is the version, the length of the key's id, the id, a salt, a nonce, and the
// envelope in AES-256-GCM. Each has a key of its own, which HKDF derives from the salt: under one key
// a random nonce is safe for 2³² messages only. What comes before the nonce is authenticated, and so
// is the fingerprint, so that an original does not open in the document of another message.
const (
	sealVersion = 1
	saltSize    = 16
	nonceSize   = 12
	longestID   = 255 // of a key, in bytes
	sealUse     = "watership original"
)

// seal encrypts the envelope of a message.
func seal(keys Keys, e schemas.Envelope, fingerprint string) ([]byte, error) {
	id, key, err := keys.Newest()
	if err != nil {
		return nil, fmt.Errorf("sealing an original: %w", err)
	}
	if id == "" || len(id) > longestID {
		return nil, fmt.Errorf("sealing an original: the id of the key has %d bytes, expected 1 to %d", len(id), longestID)
	}
	plain := wire.Encode(e)
	sealed := make([]byte, 0, 2+len(id)+saltSize+nonceSize+len(plain)+sha256.Size)
	sealed = append(append(sealed, sealVersion, byte(len(id))), id...)
	head := len(sealed)
	sealed = sealed[:head+saltSize+nonceSize]
	_, _ = rand.Read(sealed[head:]) // never fails
	block, err := blockOf(key, sealed[head:head+saltSize])
	if err != nil {
		return nil, fmt.Errorf("sealing an original: %w", err)
	}
	nonce := sealed[head+saltSize:]
	return block.Seal(sealed, nonce, plain, authenticated(sealed[:head+saltSize], fingerprint)), nil
}

// open is the inverse of seal.
func open(keys Keys, sealed []byte, fingerprint string) (schemas.Envelope, error) {
	if len(sealed) < 2 || sealed[0] != sealVersion {
		return schemas.Envelope{}, errors.New("it is sealed in a form that this Watership does not know: upgrade it")
	}
	head := 2 + int(sealed[1])
	if len(sealed) < head+saltSize+nonceSize {
		return schemas.Envelope{}, errors.New("it is too short")
	}
	key, err := keys.Key(string(sealed[2:head]))
	if err != nil {
		return schemas.Envelope{}, err
	}
	block, err := blockOf(key, sealed[head:head+saltSize])
	if err != nil {
		return schemas.Envelope{}, err
	}
	begin := head + saltSize + nonceSize
	plain, err := block.Open(nil, sealed[head+saltSize:begin], sealed[begin:], authenticated(sealed[:head+saltSize], fingerprint))
	if err != nil {
		return schemas.Envelope{}, fmt.Errorf("the key %q does not open it", sealed[2:head])
	}
	e, ok := wire.Decode(plain)
	if !ok {
		return schemas.Envelope{}, errors.New("it is no message")
	}
	return e, nil
}

func blockOf(key, salt []byte) (cipher.AEAD, error) {
	if len(key) != keySize {
		return nil, fmt.Errorf("the key has %d bytes, expected %d", len(key), keySize)
	}
	own, err := hkdf.Expand(sha256.New, key, sealUse+string(salt), keySize)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(own)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

func authenticated(head []byte, fingerprint string) []byte {
	return append(append(make([]byte, 0, len(head)+len(fingerprint)), head...), fingerprint...)
}
