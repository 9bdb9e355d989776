package console

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/console/view/messageform"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/render/jsondiff"
	"github.com/watershipmq/watership/replayer/transform"
	"github.com/watershipmq/watership/schemas"
)

// editReview is what an operator sees before an edited message is sent.
type editReview struct {
	Of      string // names the edit, so that another one is reviewed again
	Queue   string // that gets the message
	Changes []jsondiff.Difference
	More    bool // there are more changes
	Broken  bool // the body is not JSON, though its content type says so
	messages.BodyValidation
}

// maxChanges bounds the changes of a review.
const maxChanges = 100

// Doubtful reports whether the message is sent only if the operator says so again.
func (v editReview) Doubtful() bool { return v.Broken || v.Error != "" }

// review compares the edited message with the one that failed, and checks its body.
func (c messagePages) review(r *http.Request, v messageEdit, before []byte, program string) (*editReview, error) {
	sum := sha256.Sum256([]byte(v.Failure + "\n" + strings.TrimSpace(v.Text)))
	made := &editReview{Of: hex.EncodeToString(sum[:16])}
	if i := slices.IndexFunc(v.Open, func(f openFailure) bool { return f.Event == v.Failure }); i >= 0 {
		made.Queue = v.Open[i].Queue
	} else {
		return nil, conflict("the failure was resolved since the page was opened", "Open the page again.")
	}
	former, err := jsondiff.Decode(before)
	if err != nil {
		return nil, fmt.Errorf("reading the message that failed: %w", err)
	}
	edited, err := jsondiff.Decode([]byte(v.Text))
	if err != nil {
		return nil, fmt.Errorf("reading the edited message: %w", err)
	}
	made.Changes = jsondiff.Compare(former, edited, nil, maxChanges+1)
	if made.More = len(made.Changes) > maxChanges; made.More {
		made.Changes = made.Changes[:maxChanges]
	}
	edit, err := transform.Parse(program)
	if err != nil {
		return nil, fmt.Errorf("reading the edited message: %w", err)
	}
	message, _, err := edit.Apply(r.Context(), v.failed)
	if err != nil {
		return nil, frame.Unprocessable("the edited message cannot be sent: "+err.Error(), "")
	}
	made.Broken = messageform.ClaimsJSON(message.Properties.ContentType) && !json.Valid(textOf(message))
	checked, err := messages.ValidateBody.Call(r.Context(), c.api, messages.ToValidate(made.Queue, message))
	made.BodyValidation = checked.Body
	return made, err
}

// textOf returns the body of a message without its compression.
func textOf(e schemas.Envelope) []byte {
	if text, isText := e.BodyText(); isText {
		return text
	}
	return e.Body
}
