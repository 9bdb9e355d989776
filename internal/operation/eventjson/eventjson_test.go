package eventjson

import (
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/schemas"
)

// Who may not read bodies reads the status of an answer.
func TestAnswerNeedsBodies(t *testing.T) {
	e := schemas.Event{Action: schemas.Handled, State: schemas.State{Answer: "200 OK the card of Ann"}}
	for bodies, want := range map[bool]string{true: `"answer":"200 OK the card of Ann"`, false: `"answer":"200"`} {
		if got := string(Of(access.Identity{Bodies: bodies}, schemas.DocumentFormat{}, e)); !strings.Contains(got, want) {
			t.Errorf("bodies %t: %s", bodies, got)
		}
	}
}
