package webhook

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// The signature is the same as in the documentation of Svix, whose scheme became Standard
// Webhooks.
func TestSignatureOfStandardWebhooks(t *testing.T) {
	secrets, err := ParseSecrets([]byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n"))
	if err != nil {
		t.Fatal(err)
	}
	got := signatures(secrets, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A receiver verifies a request by its headers and its body, with the former secret or the
// new one, and knows a second attempt by its id.
func TestSignedRequests(t *testing.T) {
	old, fresh := []byte(strings.Repeat("o", 24)), []byte(strings.Repeat("f", 64))
	var ids []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := make([]byte, r.ContentLength)
		_, _ = r.Body.Read(body)
		id := r.Header.Get("Webhook-Id")
		ids = append(ids, id)
		for _, secret := range [][]byte{old, fresh} {
			want := signatures([][]byte{secret}, id, r.Header.Get("Webhook-Timestamp"), body)
			if got := r.Header.Get("Webhook-Signature"); !strings.Contains(" "+got+" ", " "+want+" ") {
				t.Errorf("%s is not in %s", want, got)
			}
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	e := schemas.Envelope{Body: []byte("order 17"), Headers: map[string]any{"webhook-id": "forged", "Webhook-Signature": "v1,forged"}}
	for _, message := range []struct {
		id       string
		attempts []int
	}{{"m-1", []int{1, 2}}, {"", []int{1, 2}}} {
		e.Properties.MessageID = message.id
		for _, n := range message.attempts {
			_ = post(Config{URL: server.URL, Secrets: [][]byte{fresh, old}}, e, retry.Attempt{Number: n, Queue: "orders"})
		}
	}
	if len(ids) != 4 || ids[0] != ids[1] || ids[2] == ids[3] || !strings.HasPrefix(ids[2], "msg_") {
		t.Errorf("the ids are %q", ids)
	}
}

func TestParseSecrets(t *testing.T) {
	secret := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("s", 32)))
	for text, lines := range map[string]int{
		secret: 1, "whsec_" + secret: 1, "whsec_" + secret + "\r\n" + secret + "\n\n": 2, "": 0, "\n": 0, "secret": 0, "whsec_": 0,
		base64.StdEncoding.EncodeToString([]byte("short")): 0, base64.StdEncoding.EncodeToString([]byte(strings.Repeat("l", 65))): 0,
	} {
		secrets, err := ParseSecrets([]byte(text))
		if len(secrets) != lines || (err == nil) != (lines > 0) {
			t.Errorf("%q: %d secrets, %v", text, len(secrets), err)
		}
		if err != nil && text != "" && strings.Contains(err.Error(), strings.TrimSpace(text)) && len(text) > 8 {
			t.Errorf("the error quotes a secret: %v", err)
		}
	}
	if err := (Config{URL: "http://shop", Secrets: [][]byte{{1}}}).Validate(); err == nil {
		t.Error("a short secret is valid")
	}
}
