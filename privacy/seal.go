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
// envelope in AES-256-GCM. Each has its own key, which HKDF derives from the salt: under one key
// a random nonce is safe for 2³² messages only. All before the nonce is authenticated, and so
// is the fingerprint, so that an original does not open in the document of another message.
//
// The original of a message about subjects has version 2. Between the id and the salt are their
// number, and the hash and the id of the key of each; its key is derived from all of these keys, too.
const (
	sealVersion        = 1
	subjectSealVersion = 2
	saltSize           = 16
	nonceSize          = 12
	longestID          = 255 // of a key, in bytes
	sealUse            = "watership original"
)

// seal encrypts the envelope of a message.
func seal(keys Keys, e schemas.Envelope, fingerprint string, subjects []subjectKey) ([]byte, error) {
	var of []byte
	if len(subjects) > 0 {
		of = append(of, byte(len(subjects)))
		for _, s := range subjects {
			of = append(append(of, s.hash[:]...), s.id[:]...)
		}
	}
	sealed, err := sealText(keys, of, secretOf(subjects), sealUse, wire.Encode(e), fingerprint)
	if err != nil {
		return nil, fmt.Errorf("sealing an original: %w", err)
	}
	return sealed, nil
}

// sealText encrypts a text by the newest key and a second one. of is authenticated as well.
func sealText(keys Keys, of, second []byte, use string, plain []byte, with string) ([]byte, error) {
	id, key, err := keys.Newest()
	if err != nil {
		return nil, err
	}
	if id == "" || len(id) > longestID {
		return nil, fmt.Errorf("the id of the key has %d bytes, expected 1 to %d", len(id), longestID)
	}
	version := byte(sealVersion)
	if len(of) > 0 {
		version = subjectSealVersion
	}
	sealed := make([]byte, 0, 2+len(id)+len(of)+saltSize+nonceSize+len(plain)+sha256.Size)
	sealed = append(append(append(sealed, version, byte(len(id))), id...), of...)
	head := len(sealed)
	sealed = sealed[:head+saltSize+nonceSize]
	_, _ = rand.Read(sealed[head:]) // never fails
	block, err := blockOf(key, second, use, sealed[head:head+saltSize])
	if err != nil {
		return nil, err
	}
	nonce := sealed[head+saltSize:]
	return block.Seal(sealed, nonce, plain, authenticated(sealed[:head+saltSize], with)), nil
}

// sealedText is what sealText has made.
type sealedText struct {
	keyID    string
	subjects []sealedSubject
	head     []byte // authenticated; it ends with the salt
	rest     []byte // the nonce and the encrypted text
}

// sealedSubject is a subject in a sealed original.
type sealedSubject struct {
	hash subjectHash
	key  keyID
}

func parseSealed(sealed []byte) (s sealedText, err error) {
	if len(sealed) < 2 || sealed[0] != sealVersion && sealed[0] != subjectSealVersion {
		return s, errors.New("it is sealed in a form that this Watership does not know: upgrade it")
	}
	tooShort := errors.New("it is too short")
	head := 2 + int(sealed[1])
	if len(sealed) < head+1 {
		return s, tooShort
	}
	s.keyID = string(sealed[2:head])
	if sealed[0] == subjectSealVersion {
		n := int(sealed[head])
		head++
		if n == 0 || len(sealed) < head+n*(len(subjectHash{})+len(keyID{})) {
			return s, tooShort
		}
		for range n {
			var of sealedSubject
			head += copy(of.hash[:], sealed[head:])
			head += copy(of.key[:], sealed[head:])
			s.subjects = append(s.subjects, of)
		}
	}
	if len(sealed) < head+saltSize+nonceSize {
		return s, tooShort
	}
	s.head, s.rest = sealed[:head+saltSize], sealed[head+saltSize:]
	return s, nil
}

// open is the inverse of sealText.
func (s sealedText) open(keys Keys, second []byte, use, with string) ([]byte, error) {
	key, err := keys.Key(s.keyID)
	if err != nil {
		return nil, err
	}
	block, err := blockOf(key, second, use, s.head[len(s.head)-saltSize:])
	if err != nil {
		return nil, err
	}
	plain, err := block.Open(nil, s.rest[:nonceSize], s.rest[nonceSize:], authenticated(s.head, with))
	if err != nil {
		return nil, fmt.Errorf("the key %q does not open it", s.keyID)
	}
	return plain, nil
}

// envelope opens the original of a message, by the keys of its subjects.
func (s sealedText) envelope(keys Keys, subjects []subjectKey, fingerprint string) (schemas.Envelope, error) {
	plain, err := s.open(keys, secretOf(subjects), sealUse, fingerprint)
	if err != nil {
		return schemas.Envelope{}, err
	}
	e, ok := wire.Decode(plain)
	if !ok {
		return schemas.Envelope{}, errors.New("it is no message")
	}
	return e, nil
}

// blockOf returns the cipher of a salt by a key, and by a second one if there is one.
func blockOf(key, second []byte, use string, salt []byte) (cipher.AEAD, error) {
	if len(key) != keySize {
		return nil, fmt.Errorf("the key has %d bytes, expected %d", len(key), keySize)
	}
	if len(second) > 0 {
		var err error
		if key, err = hkdf.Extract(sha256.New, second, key); err != nil {
			return nil, err
		}
	}
	own, err := hkdf.Expand(sha256.New, key, use+string(salt), keySize)
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
