package console

import (
	"net/http"
	"slices"

	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/render/indent"
	"github.com/watershipmq/watership/schemas"
)

// messageOriginal is the page of a redacted message as it was published.
type messageOriginal struct {
	messageView
	Reason  string // "": nobody has said yet why it is read
	Text    string // of the body; "": it is no text
	IsWhole bool   // else the text, or the bytes, are the beginning
}

// MayReadOriginal reports whether the caller may open the original of the message.
func (v messageView) MayReadOriginal(caller access.Identity) bool {
	return v.Event.Envelope.Redacted && caller.Originals
}

func (c messagePages) originalForm(r *http.Request) (frame.Response, error) {
	v, _, err := c.findMessage(r)
	if err != nil {
		return nil, err
	}
	if !v.Event.Envelope.Redacted {
		return frame.Redirect(v.URL), nil
	}
	return originalPage(messageOriginal{messageView: v}), nil
}

// showOriginal answers a form: the reason is in no URL, and a page that is read again asks again.
func (c messagePages) showOriginal(r *http.Request) (frame.Response, error) {
	v, _, err := c.findMessage(r)
	if err != nil {
		return nil, err
	}
	access.GiveReason(r.Context(), r.PostForm.Get("reason"))
	id := messageID(v.Event)
	answer, err := messages.GetMessages.Call(r.Context(), c.api, messages.MessagesInput{ID: id, WithBody: mayRead(r), Original: true})
	if err != nil {
		return nil, err
	}
	if v.Event, err = schemas.ParseDocument(answer.Body.Messages[0].Event); err != nil {
		return nil, err
	}
	v.Headers = headersOf(v.Event.Envelope.PublisherHeaders())
	shown := messageOriginal{messageView: v, Reason: access.CleanReason(r.PostForm.Get("reason"))}
	shown.Body = bodyView{Place: v.Event.BodyIn, MayRead: mayRead(r), Size: v.Event.BodySize}
	shown.showBody(r, v.Event.Envelope)
	return originalPage(shown), nil
}

// showBody shows the text of the body, or else its first bytes.
func (v *messageOriginal) showBody(r *http.Request, e schemas.Envelope) {
	text, isText := e.BodyText()
	if isText && !slices.Contains(text, 0) {
		v.Text, v.IsWhole = indent.Text(text, maxBodyText)
		return
	}
	v.Body.showHex(r, e.Body)
	v.IsWhole = v.Body.To == len(e.Body)
}

func originalPage(v messageOriginal) frame.Page {
	return frame.Page{Title: "Original of " + v.Name, Section: "/messages", Template: "message_original.html", Data: v, Styles: []string{"message.css"}}
}
