package console

import (
	"net/http"
	"net/url"

	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/operate/messages"
)

// messageExplained is the data of the page that explains the retries of a message.
type messageExplained struct {
	ID           string
	URL          string // of the message
	Explanations []messages.Explanation
}

// explainMessage shows the class of a message's latest failure, the rule that chose it, and the
// attempts that follow.
func (c messagePages) explainMessage(r *http.Request) (frame.Response, error) {
	v := messageExplained{ID: r.PathValue("id"), URL: "/messages/" + url.PathEscape(r.PathValue("id"))}
	found, err := messages.ExplainFailure.Call(r.Context(), c.api, messages.ExplainInput{ID: v.ID})
	v.Explanations = found.Body.Explanations
	return frame.Page{
		Title: "Retries of " + shortID(v.ID), Section: "/messages", Template: "message_explain.html", Data: v, Styles: []string{"message.css"},
	}, err
}
