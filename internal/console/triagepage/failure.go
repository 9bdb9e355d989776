package triagepage

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"

	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/console/view/jsontree"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/render/indent"
	"github.com/watershipmq/watership/schemas"
)

// failureView is a failure of the group, the newest one unless the address names another.
type failureView struct {
	failures.GroupFailure
	Failed                 schemas.Event
	Name                   string // of its message
	Message                string // link
	Latest, Next, Previous string // links to the newest, the newer and the older failure; "": none
	Body                   bodyView
	Problem                *problem.Problem
}

// bodyView is the body of the message that failed.
type bodyView struct {
	Readable bool // the store has it, and the caller may read it
	Unread   bool // each access is recorded, so that a refresh of the page reads none
	Tree     *jsontree.Node
	Text     string // of a body that is not JSON
	Binary   bool   // it is shown on the page of the message
	IsWhole  bool   // else Text is the beginning
	Problem  *problem.Problem
}

// Bounds of the body, of which the page of the message shows more.
const (
	maxBodyNodes = 300
	maxBodyDepth = 16
	maxBodyText  = 8 << 10 // bytes
)

// failure reads the failure that the address names.
func (p Pages) failure(r *http.Request, group string) failureView {
	in := failures.GroupFailureInput{Group: group, ID: r.URL.Query().Get("failure")}
	found, err := failures.GetGroupFailure.Call(r.Context(), p.API, in)
	v := failureView{GroupFailure: found.Body}
	if err == nil {
		v.Failed, err = schemas.ParseDocument(found.Body.Event)
	}
	if err != nil {
		v.Problem = frame.ProblemOf(err)
		return v
	}
	id := cmp.Or(v.Failed.Fingerprint, v.Failed.EventID)
	v.Name, v.Message = cmp.Or(v.Failed.Envelope.Properties.MessageID, id), frame.MessageURL(id)
	at := func(event string) string {
		if event == "" {
			return ""
		}
		return Path(group) + "?" + url.Values{"failure": {event}}.Encode() + "#failure"
	}
	v.Next, v.Previous = at(v.Newer), at(v.Older)
	if v.Place != 1 && v.Of > 0 {
		v.Latest = Path(group) + "#failure"
	}
	v.Body = p.body(r, v.Failed, id)
	return v
}

// body reads the body of the message of a failure.
func (p Pages) body(r *http.Request, e schemas.Event, id string) bodyView {
	b := bodyView{Readable: access.FromContext(r.Context()).Bodies && e.BodyIn == schemas.BodyHere, Unread: r.Header.Get(frame.RefreshHeader) != ""}
	if !b.Readable || b.Unread {
		return b
	}
	read, err := messages.GetBody.Call(r.Context(), p.API, messages.BodyInput{ID: id})
	if err != nil {
		b.Problem = frame.ProblemOf(err)
		return b
	}
	text, isText := schemas.Envelope{Properties: e.Envelope.Properties, Body: read.Body}.BodyText()
	switch {
	case !isText || slices.Contains(text, 0):
		b.Binary = true
	default:
		if tree, isJSON := jsontree.Parse(text, jsontree.Limits{Nodes: maxBodyNodes, Depth: maxBodyDepth}); isJSON {
			b.Tree = &tree
			return b
		}
		b.Text, b.IsWhole = indent.Text(text, maxBodyText)
	}
	return b
}
