package console

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/console/view/messageform"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/schemas"
)

// messageDiscard is the form that discards the failures of a message.
type messageDiscard struct {
	messageView
	Reason  string
	Key     string
	Problem *problem.Problem
	Found   failures.Discarded
}

// messageDiscarded is the result of the form.
type messageDiscarded struct{ Failures, Missing, Parked int }

func (c messagePages) messageDiscardForm(r *http.Request) (frame.Response, error) {
	if err := frame.NeedOperator(r, "a discard"); err != nil {
		return nil, err
	}
	return c.showDiscard(r, messageDiscard{Key: rand.Text()})
}

// showDiscard shows the form with the failures that the message has now.
func (c messagePages) showDiscard(r *http.Request, d messageDiscard) (frame.Response, error) {
	v, found, err := c.findMessage(r)
	if err != nil {
		return nil, err
	}
	v.Queues = found.Queues
	d.messageView = v
	if len(v.Failures) > 0 {
		in := failures.DiscardInput{}
		in.Body.IDs, in.Body.DryRun = v.Failures, true
		first, err := failures.DiscardFailures.Call(r.Context(), c.api, in)
		if err != nil {
			return nil, err
		}
		if d.Found = first.Body; d.Found.Matched == 0 { // another person was first
			d.Failures = nil
		}
	}
	p := frame.Page{Title: "Discard " + v.Name, Section: "/messages", Template: "message_discard.html", Data: d, Styles: []string{"message.css"}}
	if d.Problem != nil {
		p.Status = d.Problem.Status
	}
	return p, nil
}

// discardMessage discards the failures that the form has shown, or none if their number is another
// one now.
func (c messagePages) discardMessage(r *http.Request) (frame.Response, error) {
	if err := r.ParseForm(); err != nil {
		return nil, problem.BadRequest("the form cannot be read: "+err.Error(), "")
	}
	in, mistake := failures.DiscardInput{IdempotencyKey: frame.KeyOf(r)}, (*problem.Problem)(nil)
	in.Body.Bounds, in.Body.UpTo, mistake = frame.Shown(r.PostForm, "failure", "a discard", "Say why nothing more is to be done.")
	in.Body.IDs = r.PostForm["failure"]
	var done url.Values
	if mistake == nil {
		var err error
		if done, err = c.discardFailures(r, in); err != nil {
			mistake = frame.ProblemOf(err)
		}
	}
	if mistake != nil {
		return c.showDiscard(r, messageDiscard{Reason: in.Body.Reason, Key: in.Key, Problem: mistake})
	}
	return c.Done("/messages/"+url.PathEscape(r.PathValue("id")), done), nil
}

// discardFailures returns the result as parameters of the page of the message.
func (c messagePages) discardFailures(r *http.Request, in failures.DiscardInput) (url.Values, error) {
	answer, err := failures.DiscardFailures.Call(r.Context(), c.api, in)
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
	if err != nil {
		return nil, err
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
	if err != nil {
		return nil, err
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
		if done, err = c.discardFailures(r, in); err != nil {
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
