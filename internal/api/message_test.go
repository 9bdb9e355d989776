package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/watershipmq/watership/schemas"
)

// Handlers name the message that they handled by its message id. The conversation has the
// fingerprint in any case, and each step once.
func TestConversationByMessageIDs(t *testing.T) { inEachStore(t, testConversationByMessageIDs) }

func testConversationByMessageIDs(t *testing.T, r rig) {
	caused := func(by string) func(*schemas.Event) {
		return func(e *schemas.Event) { e.Envelope.Headers["causation-id"] = by }
	}
	handled := func(e *schemas.Event) { e.Envelope, e.Fingerprint = r.event(1, schemas.Published).Envelope, "" }
	r.keep(t, r.event(1, schemas.Published), r.event(6, schemas.Handled, handled), r.event(2, schemas.Published, caused("m-1")), r.event(3, schemas.Published, caused("m-2")),
		r.event(4, schemas.Published, caused("m-4")), r.event(5, schemas.Published))
	for _, id := range []string{"m-1", "m-2", "m-3"} {
		messages, _ := r.get(t, "/messages/"+id+"/conversation")["messages"].([]any)
		var got []string
		for _, m := range messages {
			got = append(got, fmt.Sprint(member(m, "message_id"), member(m, "actions")))
			if len(got) > 1 && member(m, "parent") != member(messages[len(got)-2], "fingerprint") {
				t.Errorf("%s: the parent of %v is %v", id, member(m, "message_id"), member(m, "parent"))
			}
		}
		if text := strings.Join(got, " "); text != "m-1[published handled] m-2[published] m-3[published]" {
			t.Errorf("%s: %s", id, text)
		}
	}
}
