package webhook_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/pipeline/webhook"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// The service says in its response what becomes of the message.
func ExampleNew() {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Printf("%s from %s\n", body, r.Header.Get("Watership-Exchange"))
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(w, `{"error": {"code": "no such customer"}}`)
	}))
	defer service.Close()
	handler := webhook.New(webhook.Config{
		URL:     service.URL,
		Answers: []webhook.Answer{{Field: "/error/code", Value: "no such customer", Means: webhook.Retry, Class: "ordering"}},
	})
	order := message.NewMessage("", nil)
	order.SetContext(schemas.NewContext(order.Context(), schemas.Envelope{Exchange: "shop", Body: []byte("order 17")}))
	_, err := handler(order)
	fmt.Println(retry.Default().Next(retry.Failure{Err: err, Attempt: 1}, nil).Action, retry.ClassOf(err))
	// Output:
	// order 17 from shop
	// retry ordering
}

// One route serves many receivers: the message says which.
func ExampleNew_receiverOfTheMessage() {
	handler := webhook.New(webhook.Config{
		URL:        "https://{headers.merchant_host}/hooks/{body.json.merchant.id}",
		Hosts:      []string{"*.merchants.example.com"},
		SetHeaders: map[string]string{"Authorization": "Bearer {headers.token}"},
	})
	order := message.NewMessage("", nil)
	order.SetContext(schemas.NewContext(order.Context(), schemas.Envelope{
		Headers: amqp.Table{"merchant_host": "169.254.169.254", "token": "secret"}, Body: []byte(`{"merchant": {"id": 17}}`),
	}))
	_, err := handler(order)
	fmt.Println(err)
	fmt.Println(retry.TypeOf(err), retry.IsPermanent(err))
	// Output:
	// URL of the request: https://169.254.169.254 is not among the hosts that are allowed
	// host_not_allowed true
}

func ExampleConfig_Validate() {
	cfg := webhook.Config{URL: "http://shop/orders", Answers: []webhook.Answer{{Status: "404", Means: "ignore"}}}
	fmt.Println(cfg.Validate())
	// Output: answer 1: meaning "ignore": expected one of [handled retry poison unavailable]
}

func ExampleMeanings() {
	fmt.Println(webhook.Meanings())
	// Output: [handled retry poison unavailable]
}

// A file has one secret per line: the new one, and the former one until every receiver
// knows the new one.
func ExampleParseSecrets() {
	secrets, err := webhook.ParseSecrets([]byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))
	fmt.Println(len(secrets), err)
	_, err = webhook.ParseSecrets([]byte("secret"))
	fmt.Println(err)
	// Output:
	// 1 <nil>
	// line 1 is no secret: expected base64 of 24 to 64 bytes, such as whsec_ and the result of `openssl rand -base64 32`
}

func ExampleParseKey() {
	key, err := webhook.ParseKey("{body.json.merchant.id}")
	fmt.Println(key(schemas.Envelope{Body: []byte(`{"merchant": {"id": 17}}`)}), err)
	_, err = webhook.ParseKey("merchant")
	fmt.Println(err)
	// Output:
	// 17 <nil>
	// key "merchant": expected a field of the message, such as {headers.merchant}
}

// A program that sends webhooks of its own signs them as the handler of a route does.
func ExampleSetSignature() {
	body := []byte(`{"order": 7}`)
	request, err := http.NewRequest(http.MethodPost, "https://example.org/hooks", bytes.NewReader(body))
	if err != nil {
		fmt.Println(err)
		return
	}
	webhook.SetSignature(request.Header, [][]byte{[]byte("a secret of at least 24 bytes")}, "msg_7", body)
	fmt.Println(request.Header.Get("Webhook-Id"), request.Header.Get("Webhook-Signature") != "")
	// Output: msg_7 true
}

func ExampleDefaultMeaning() {
	fmt.Println(webhook.DefaultMeaning(http.StatusConflict), webhook.DefaultMeaning(http.StatusNotFound), webhook.DefaultMeaning(http.StatusBadGateway))
	// Output: poison retry unavailable
}
