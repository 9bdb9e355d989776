package console

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/watershipmq/watership/internal/console/actionpage"
	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/console/view/messageform"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/schemas"
)

// discardSelection has the failures of a message.
type discardSelection struct {
	messageView
	Shown []string // ids that a form has shown
}

// messageDiscarded is the result of the form.
type messageDiscarded struct{ Failures, Missing, Parked int }

// discardMessage is the action that discards the failures of a message.
func (c messagePages) discardMessage() actionpage.Flow[discardSelection, failures.Discarded] {
	return actionpage.Flow[discardSelection, failures.Discarded]{
		Path: "/messages/{id}/discard", Role: access.Operator,
		Confirmation: frame.Confirmation{Name: "a discard", Unit: "failure", Reason: "Say why nothing more is to be done.", Events: true},
		Read:         c.readDiscard, Preview: c.previewDiscard, Act: c.discard, Page: discardPage,
	}
}

func (c messagePages) readDiscard(r *http.Request, form url.Values) (s discardSelection, isSelected bool, err error) {
	v, found, err := c.findMessage(r)
	v.Queues = found.Queues
	return discardSelection{v, form["failure"]}, len(v.Failures) > 0, err
}

// previewDiscard finds the failures that the message has now.
func (c messagePages) previewDiscard(ctx context.Context, s discardSelection) (failures.Discarded, operation.Found, error) {
	in := failures.DiscardInput{}
	in.Body.IDs, in.Body.DryRun = s.Failures, true
	found, err := failures.DiscardFailures.Call(ctx, c.api, in)
	return found.Body, found.Body.Found, err
}

func (c messagePages) discard(ctx context.Context, key operation.IdempotencyKey, s discardSelection, shown frame.Confirmed) (frame.Response, error) {
	in := failures.DiscardInput{IdempotencyKey: key}
	in.Body.IDs, in.Body.Bounds, in.Body.UpTo = s.Shown, shown.Bounds, shown.UpTo
	done, err := c.discardFailures(ctx, in)
	if err != nil {
		return nil, err
	}
	return c.Done(s.URL, done), nil
}

func discardPage(_ context.Context, v actionpage.Shown[discardSelection, failures.Discarded]) (frame.Page, error) {
	return frame.Page{Title: "Discard " + v.Selected.Name, Section: "/messages", Template: "message_discard.html", Data: v, Styles: []string{"message.css"}}, nil
}

// discardFailures returns the result as parameters of the page of the message.
func (c messagePages) discardFailures(ctx context.Context, in failures.DiscardInput) (url.Values, error) {
	answer, err := failures.DiscardFailures.Call(ctx, c.api, in)
	if err != nil {
		return nil, err
	}
	done, parked := answer.Body, 0
	for _, p := range done.Parked {
		parked += p.Messages
	}
	return url.Values{"discarded": {strconv.Itoa(done.Done)}, "missing": {strconv.Itoa(done.Missing)}, "parked": {strconv.Itoa(parked)}}, nil
}

// addDone adds the result of a form.
func (v *messageView) addDone(query url.Values, at time.Time) {
	v.Done = at
	if n, err := strconv.Atoi(query.Get("discarded")); err == nil {
		v.Discarded = &messageDiscarded{Failures: n}
		v.Discarded.Missing, _ = strconv.Atoi(query.Get("missing"))
		v.Discarded.Parked, _ = strconv.Atoi(query.Get("parked"))
	}
	v.Copied = query.Get("copied")
}

// messageCopy is the form of a copy.
type messageCopy struct {
	messageView
	Form     messageform.Form
	Types    []string
	Resolve  bool // discard the failures of the original
	Key      string
	HasBody  bool // the original has a body that the caller may read
	Problem  *problem.Problem
	Broken   bool     // the body is no JSON, though the content type says so
	Sent     string   // fingerprint of a copy that was sent before the problem
	FailedAt []string // queues
}

// Property returns a property of the original.
func (v messageCopy) Property(name string) string {
	return messageform.OriginalProperty(v.Event.Envelope.Properties, name)
}

// PropertyNames returns the properties of the form.
func (messageCopy) PropertyNames() []string { return messageform.PropertyNames() }

// IsCopied reports whether a copy has a property of the original.
func (messageCopy) IsCopied(name string) bool { return !slices.Contains(messageform.NotCopied(), name) }

// emptyRows is the number of rows for more headers, which a form without script needs.
const emptyRows = 3

func (c messagePages) messageCopyForm(r *http.Request) (frame.Response, error) {
	v, err := c.messageCopy(r)
	switch {
	case err != nil:
		return nil, err
	case v.Problem != nil:
		return messageCopyPage(v), nil
	}
	e := v.Event.Envelope
	if v.HasBody {
		if e.Body, err = c.readBody(r, messageID(v.Event)); err != nil {
			return nil, err
		}
	}
	v.Form, v.Key = messageform.New(e, v.HasBody), rand.Text()
	return messageCopyPage(v), nil
}

// messageCopy returns the form without its fields. The problem of the form says why the message
// cannot be copied.
func (c messagePages) messageCopy(r *http.Request) (messageCopy, error) {
	if err := frame.NeedOperator(r, "a copy"); err != nil {
		return messageCopy{}, err
	}
	found, message, err := c.findMessage(r)
	v := messageCopy{messageView: found, Types: messageform.Types()}
	v.HasBody = mayRead(r) && found.Event.BodyIn == schemas.BodyHere
	for _, q := range message.Queues {
		if q.State != history.QueueHandled {
			v.FailedAt = append(v.FailedAt, q.Queue)
		}
	}
	if found.Event.Envelope.Redacted {
		v.Problem = conflict("the message is redacted, so a copy of what is recorded would have hashes", "Replay it, which sends the original.")
	}
	return v, err
}

func messageCopyPage(v messageCopy) frame.Page {
	for range emptyRows {
		v.Form.Headers = append(v.Form.Headers, messageform.Header{Type: "string"})
	}
	p := frame.Page{Title: "Copy " + v.Name, Section: "/messages", Template: "message_copy.html", Data: v, Styles: []string{"message.css"}}
	if v.Problem != nil {
		p.Status = v.Problem.Status
	}
	return p
}

// sendCopy publishes the copy of a form, and discards the failures of the original if the
// form says so. With the key of the form, it can be sent again after a problem.
func (c messagePages) sendCopy(r *http.Request) (frame.Response, error) {
	if err := r.ParseForm(); err != nil {
		return nil, problem.BadRequest("the form cannot be read: "+err.Error(), "")
	}
	v, err := c.messageCopy(r)
	switch {
	case err != nil:
		return nil, err
	case v.Problem != nil:
		return messageCopyPage(v), nil
	}
	v.Form, v.Key, v.Resolve = messageform.Read(r.PostForm), r.PostForm.Get("key"), r.PostForm.Get("resolve") != ""
	fail := func(err error) (frame.Response, error) {
		v.Problem = frame.ProblemOf(err)
		return messageCopyPage(v), nil
	}
	publication, err := v.Form.Publication(messageID(v.Event))
	if err != nil {
		return fail(problem.BadRequest(err.Error(), ""))
	}
	if err := messageform.CheckBody(publication); err != nil && r.PostForm.Get("broken") == "" {
		v.Broken = true
		return fail(frame.Unprocessable(err.Error(), "Correct the body, or send it as it is."))
	}
	answer, err := messages.PublishMessage.Call(r.Context(), c.api, messages.PublishInput{IdempotencyKey: frame.KeyOf(r), Body: publication})
	if err != nil {
		return fail(err)
	}
	sent := answer.Body
	done := url.Values{}
	if list := r.PostForm["failure"]; v.Resolve && len(list) > 0 {
		in := failures.DiscardInput{IdempotencyKey: operation.IdempotencyKey{Key: v.Key + " discard"}}
		in.Body.IDs, in.Body.Reason = list, replacedBy+sent.Fingerprint
		if done, err = c.discardFailures(r.Context(), in); err != nil {
			v.Sent = sent.Fingerprint
			return fail(err)
		}
	}
	done.Set("copied", sent.Fingerprint)
	return c.Done(v.URL, done), nil
}

// MayRead reports whether only the store is the reason for a missing body.
func (v messageCopy) MayRead() bool { return v.Body.MayRead }

// SentPath returns the fingerprint of the copy, escaped.
func (v messageCopy) SentPath() string { return url.PathEscape(v.Sent) }
