package server_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/server/servertest"
)

// A receiver verifies the requests of serve with its secret, and both attempts have the
// same id.
func TestSignedRequestsOfServe(t *testing.T) {
	servertest.OnEither(t, func(t *testing.T, p servertest.Parts) {
		service := servertest.NewService(t, func(_ servertest.Post, before int) int {
			if before == 0 {
				return http.StatusInternalServerError
			}
			return http.StatusOK
		})
		i := p.Install(t, service.URL)
		file := servertest.WriteFile(t, "secrets", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n")
		i.Rewrite(t, "timeout: 10s", "timeout: 10s, secret_file: "+file)
		i.Serve(t)
		err := p.Broker.Channel(t).Publish(i.Exchange, "k", false, false, amqp.Publishing{MessageId: "m-1", Body: []byte("order 17")})
		if err != nil {
			t.Fatal(err)
		}
		i.Eventually(t, "action: handled", 1)
		posts := service.Got()["m-1"]
		if len(posts) != 2 || posts[0].Header.Get("Webhook-Id") != posts[1].Header.Get("Webhook-Id") {
			t.Fatalf("the requests are %+v", posts)
		}
		secret, _ := base64.StdEncoding.DecodeString("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
		for _, r := range posts {
			mac := hmac.New(sha256.New, secret)
			mac.Write([]byte(r.Header.Get("Webhook-Id") + "." + r.Header.Get("Webhook-Timestamp") + ".order 17"))
			if want, got := "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)), r.Header.Get("Webhook-Signature"); got != want {
				t.Errorf("the signature is %q, want %q", got, want)
			}
		}
		i.Rewrite(t, file, file+".none")
		i.Must(t, "search", "*") // needs no secret of a route
	})
}
