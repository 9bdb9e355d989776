package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"hash/crc32"
	"strings"
	"time"
)

// Token is a secret of a program or a person, without the secret.
type Token struct {
	Name        string    `json:"name"`
	Hash        []byte    `json:"sha256"`
	Role        Role      `json:"role"`
	Bodies      bool      `json:"bodies,omitempty"`
	BodyReasons bool      `json:"body_reasons,omitempty"`
	Originals   bool      `json:"originals,omitempty"`
	Queues      []string  `json:"queues,omitempty"`
	Exchanges   []string  `json:"exchanges,omitempty"`
	Created     time.Time `json:"created"`
	Expires     time.Time `json:"expires,omitzero"` // zero: never
}

// Expired reports whether the token has expired.
func (t Token) Expired(now time.Time) bool { return !t.Expires.IsZero() && !now.Before(t.Expires) }

// identity returns the identity of requests with the token.
func (t Token) identity() Identity {
	return Identity{
		Name: t.Name, Method: ByToken, Role: t.Role, Bodies: t.Bodies, BodyReasons: t.BodyReasons, Originals: t.Originals,
		Queues: t.Queues, Exchanges: t.Exchanges,
	}
}

// The secret of a token is wst_ and, in base32, 256 random bits and a checksum. Tools that
// search source code for secrets find it by its prefix and its checksum, and a token that
// was not copied whole is distinguished from a revoked one.
const (
	tokenPrefix = "wst_"
	secretBytes = 32
)

func tokenEncoding() *base32.Encoding {
	return base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)
}

// newSecret returns the secret of a new token.
func newSecret() string {
	content := make([]byte, secretBytes, secretBytes+crc32.Size)
	_, _ = rand.Read(content) // never fails
	return tokenPrefix + tokenEncoding().EncodeToString(binary.BigEndian.AppendUint32(content, crc32.ChecksumIEEE(content)))
}

// isSecret reports whether a text has the form of a token's secret.
func isSecret(text string) bool {
	encoded, ok := strings.CutPrefix(text, tokenPrefix)
	content, err := tokenEncoding().DecodeString(encoded)
	if !ok || err != nil || len(content) != secretBytes+crc32.Size {
		return false
	}
	sum := binary.BigEndian.Uint32(content[secretBytes:])
	return sum == crc32.ChecksumIEEE(content[:secretBytes]) && tokenPrefix+tokenEncoding().EncodeToString(content) == text
}

// hashSecret returns the stored hash of a secret. A slow hash such as bcrypt is for
// passwords, which can be guessed: 256 random bits cannot, and the hash is computed for
// every request.
func hashSecret(secret string) [sha256.Size]byte { return sha256.Sum256([]byte(secret)) }
