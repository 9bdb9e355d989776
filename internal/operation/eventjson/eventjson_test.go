package eventjson

import (
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/schemas"
)

// Who may not read bodies, or has not said why, reads the status of an answer.
func TestAnswerNeedsBodies(t *testing.T) {
	e := schemas.Event{Action: schemas.Handled, State: schemas.State{Answer: "200 OK the card of Ann"}}
	for want, who := range map[string]access.Identity{
		`"answer":"200 OK the card of Ann"`: {Bodies: true}, `"answer":"200"`: {}, `"answer":"200"}`: {Bodies: true, BodyReasons: true},
	} {
		ctx := access.NewContext(t.Context(), who)
		if got := string(Of(ctx, schemas.DocumentFormat{}, e)); !strings.Contains(got, want) {
			t.Errorf("%+v: %s", who, got)
		}
	}
}
