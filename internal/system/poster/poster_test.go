package poster_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/system/poster"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/subscription"
)

func delivery(body string) subscription.Delivery {
	e := schemas.Event{Action: schemas.Handled, Sequence: 7}
	e.EventID, e.Envelope = "shop-7", schemas.Envelope{Exchange: "shop", RoutingKey: "order.created", Body: []byte(body)}
	return subscription.Delivery{Subscription: "orders", Position: eventstore.Cursor{Sequence: 7, EventID: "shop-7"}, Event: e}
}

func TestPost(t *testing.T) {
	status, headers, body := http.StatusNoContent, http.Header{}, ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		headers, body = r.Header, string(text)
		w.Header().Set("Location", "http://169.254.169.254/")
		w.WriteHeader(status)
	}))
	defer server.Close()
	p := poster.New([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, nil)
	defer p.Close()
	post := func(d subscription.Delivery) error {
		ctx := schemas.NewContext(t.Context(), d.Event.Envelope)
		return p.Post(retry.ContextWithAttempt(ctx, retry.Attempt{Number: 1}), server.URL, d)
	}
	if err := post(delivery("a")); err != nil || body != "a" {
		t.Fatalf("%q, %v", body, err)
	}
	key := headers.Get("Idempotency-Key")
	for name, want := range map[string]string{
		"Watership-Subscription": "orders", "Watership-Subscription-Position": "7:shop-7", "Watership-Subscription-Action": "handled", "Watership-Routing-Key": "order.created",
	} {
		if headers.Get(name) != want {
			t.Errorf("%s: %q", name, headers.Get(name))
		}
	}
	if order := headers.Get("Watership-Subscription-Order"); order != "" {
		t.Errorf("order: %q", order)
	}
	prioritized := delivery("a")
	prioritized.Event.ByPriority = true
	if err := post(prioritized); err != nil || headers.Get("Watership-Subscription-Order") != "priority" {
		t.Errorf("an event with a priority: %v, %v", headers, err)
	}
	if err := post(delivery("a")); err != nil || key == "" || headers.Get("Idempotency-Key") != key {
		t.Errorf("a repeat has another key: %v", err)
	}
	other := delivery("a")
	other.Position.Sequence = 8
	if err := post(other); err != nil || headers.Get("Idempotency-Key") == key {
		t.Errorf("another event has the same key: %v", err)
	}
	status = http.StatusUnprocessableEntity
	if err := post(delivery("a")); !retry.IsPermanent(err) {
		t.Errorf("422: %v", err)
	}
	for _, status = range []int{http.StatusInternalServerError, http.StatusFound} {
		if err := post(delivery("a")); err == nil || retry.IsPermanent(err) {
			t.Errorf("%d: %v", status, err)
		}
	}
}

// A URL cannot lead into the network of the server.
func TestPostToAPrivateAddress(t *testing.T) {
	called := false
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called = true }))
	defer server.Close()
	p := poster.New([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, nil)
	defer p.Close()
	err := p.Post(schemas.NewContext(t.Context(), delivery("a").Event.Envelope), server.URL, delivery("a"))
	if err == nil || !strings.Contains(err.Error(), "neither public nor in a private network") || called {
		t.Errorf("called: %t, %v", called, err)
	}
	var unavailable *retry.UnavailableError
	if retry.IsPermanent(err) || !errors.As(err, &unavailable) {
		t.Errorf("each message would be parked: %v", err)
	}
}

func TestCheckURL(t *testing.T) {
	for url, ok := range map[string]bool{"https://a.example.com/x": true, "https://{headers.host}/": false, "ftp://a": false, "http://10.1.2.3/x": true, "http://127.0.0.1:9/x": false, "http://[::1]/": false, "http://169.254.169.254/latest": false} {
		if err := poster.CheckURL(url, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}); (err == nil) != ok {
			t.Errorf("%s: %v", url, err)
		}
	}
}
