package webhook

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	secretPrefix   = "whsec_"
	shortestSecret = 24 // bytes
	longestSecret  = 64 // bytes
)

// ParseSecrets parses secrets of Config, one per line: base64 of 24 to 64 bytes, with or
// without the prefix whsec_, as Standard Webhooks has them
// (https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md).
// Its errors do not quote a secret.
func ParseSecrets(text []byte) ([][]byte, error) {
	var secrets [][]byte
	for n, line := range bytes.Split(bytes.TrimSpace(text), []byte("\n")) {
		secret, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(string(bytes.TrimSpace(line)), secretPrefix))
		if err != nil || checkSecret(secret) != nil {
			return nil, fmt.Errorf("line %d is no secret: expected base64 of %d to %d bytes, such as whsec_ and the result of `openssl rand -base64 32`",
				n+1, shortestSecret, longestSecret)
		}
		secrets = append(secrets, secret)
	}
	return secrets, nil
}

func checkSecret(secret []byte) error {
	if len(secret) < shortestSecret || len(secret) > longestSecret {
		return fmt.Errorf("a secret has %d bytes: expected %d to %d", len(secret), shortestSecret, longestSecret)
	}
	return nil
}

// sign sets the headers of Standard Webhooks. The id is the idempotency key, by which a
// receiver knows an attempt that it has handled; a message without an id has another at
// each attempt, since equal messages are different ones.
func (p *poster) sign(h http.Header, key string, body []byte) {
	if len(p.Secrets) == 0 {
		return
	}
	SetSignature(h, p.Secrets, "msg_"+cmp.Or(key, rand.Text()), body)
}

// SetSignature sets the headers of Standard Webhooks for a request with a body: its id, the
// time and a signature with each secret.
func SetSignature(h http.Header, secrets [][]byte, id string, body []byte) {
	timestamp := strconv.FormatInt(time.Now().Unix(), 10)
	h.Set("Webhook-Id", id)
	h.Set("Webhook-Timestamp", timestamp)
	h.Set("Webhook-Signature", signatures(secrets, id, timestamp, body))
}

// signatures returns a signature with each secret.
func signatures(secrets [][]byte, id, timestamp string, body []byte) string {
	var all []string
	for _, secret := range secrets {
		mac := hmac.New(sha256.New, secret)
		fmt.Fprintf(mac, "%s.%s.", id, timestamp)
		mac.Write(body)
		all = append(all, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return strings.Join(all, " ")
}
