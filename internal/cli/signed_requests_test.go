package cli

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// A receiver verifies the requests of serve with its secret, and both attempts have the
// same id.
func TestSignedRequestsOfServe(t *testing.T) {
	onBoth(t, func(t *testing.T, p parts) {
		service := newService(t, func(_ post, before int) int {
			if before == 0 {
				return http.StatusInternalServerError
			}
			return http.StatusOK
		})
		i := p.install(t, service.url)
		file := writeFile(t, "secrets", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n")
		i.rewrite(t, "timeout: 10s", "timeout: 10s, secret_file: "+file)
		i.serve(t)
		err := p.broker.Channel(t).Publish(i.exchange, "k", false, false, amqp.Publishing{MessageId: "m-1", Body: []byte("order 17")})
		if err != nil {
			t.Fatal(err)
		}
		i.eventually(t, "action: handled", 1)
		posts := service.got()["m-1"]
		if len(posts) != 2 || posts[0].header.Get("Webhook-Id") != posts[1].header.Get("Webhook-Id") {
			t.Fatalf("the requests are %+v", posts)
		}
		secret, _ := base64.StdEncoding.DecodeString("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
		for _, r := range posts {
			mac := hmac.New(sha256.New, secret)
			mac.Write([]byte(r.header.Get("Webhook-Id") + "." + r.header.Get("Webhook-Timestamp") + ".order 17"))
			if want, got := "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)), r.header.Get("Webhook-Signature"); got != want {
				t.Errorf("the signature is %q, want %q", got, want)
			}
		}
		i.rewrite(t, file, file+".none")
		i.must(t, "search", "*") // needs no secret of a route
	})
}
