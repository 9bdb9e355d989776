package subscription

import (
	"testing"

	"github.com/watershipmq/watership/replayer/transform"
	"github.com/watershipmq/watership/schemas"
)

// A page is ready in parts, so that a program cannot make it as large as its messages are many.
func TestAPageOfUpcastsIsBounded(t *testing.T) {
	program, err := transform.Parse(`.body = "x" * 999998`)
	if err != nil {
		t.Fatal(err)
	}
	u, page := upcaster{program: program, target: Target{Kind: ToHandler}}, make([]*sent, 20)
	for i := range page {
		page[i] = &sent{}
		page[i].Event.Envelope.Body, page[i].Event.BodyIn = []byte("{}"), schemas.BodyHere
	}
	for parts := 1; len(page) > 0; parts++ {
		ready, err := u.page(t.Context(), page)
		if err != nil || ready == 0 || ready > 10 {
			t.Fatalf("%d of %d bodies are ready at once: %v", ready, len(page), err)
		}
		for i, one := range page {
			if isUpcast := len(one.Event.Envelope.Body) == 1_000_000; isUpcast != (i < ready) || one.err != nil {
				t.Errorf("part %d, body %d: upcast %t, %v", parts, i, isUpcast, one.err)
			}
		}
		page = page[ready:]
	}
}
