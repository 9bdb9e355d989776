package console

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/watershipmq/watership/internal/operation/code"

	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/replayer/transform"
	"github.com/watershipmq/watership/schemas"
)

// messageEdit is the form that edits a failed message, and sends it to the queue that failed in
// place of its failure.
type messageEdit struct {
	messageView
	Open    []openFailure
	Failure string // event of the selected failure
	Text    string // the message as JSON
	Reason  string
	Key     string
	Problem *problem.Problem
	Review  *editReview // nil: nothing was reviewed yet
	failed  schemas.Envelope
}

// openFailure is the newest unresolved failure of a message at a queue.
type openFailure struct{ Queue, Event string }

func (c messagePages) messageEditForm(r *http.Request) (frame.Response, error) {
	v, before, err := c.messageEdit(r)
	if err != nil {
		return nil, err
	}
	if v.Key = rand.Text(); v.Problem != nil {
		return messageEditPage(v), nil
	}
	var text bytes.Buffer
	if err := json.Indent(&text, before, "", "  "); err != nil {
		return nil, err
	}
	v.Text = text.String()
	return messageEditPage(v), nil
}

// messageEdit returns the form without its fields, and the message as JSON. The problem of the
// form says why the message cannot be edited.
func (c messagePages) messageEdit(r *http.Request) (v messageEdit, before []byte, err error) {
	if err := frame.NeedOperator(r, "an edit"); err != nil {
		return v, nil, err
	}
	found, message, err := c.findMessage(r)
	if v.messageView = found; err != nil {
		return v, nil, err
	}
	for _, q := range message.Queues {
		if len(q.Failures) > 0 {
			v.Open = append(v.Open, openFailure{q.Queue, q.Failures[len(q.Failures)-1]})
		}
	}
	switch {
	case len(v.Open) == 0:
		v.Problem = conflict("the message has no unresolved failure", "Look at its history, or send a copy of it.")
	case !mayRead(r):
		v.Problem = problem.Forbidden("you may not read the bodies of messages, so you cannot edit them", "Ask for a token with the permission to read bodies.")
	case found.Event.BodyIn != schemas.BodyHere:
		v.Problem = conflict("the store does not have the body of the message", "Send a copy, and write its body.")
	}
	if v.Problem == nil && found.Event.Envelope.Redacted {
		v.Problem = conflict("the message is redacted, so its text cannot be edited", "Replay it with a program, which changes the original.")
	}
	if v.Problem != nil {
		return v, nil, nil
	}
	v.Failure = v.Open[0].Event
	e := found.Event.Envelope
	if e.Body, err = c.readBody(r, messageID(found.Event)); err != nil {
		return v, nil, err
	}
	v.failed = e
	if before, err = transform.JSON(e); err == nil && len(before) > transform.MaxProgram {
		v.Problem = frame.Unprocessable(fmt.Sprintf("the message has %d bytes as JSON, and an edit at most %d", len(before), transform.MaxProgram), "Send a copy of it.")
	}
	return v, before, err
}

func conflict(detail, remedy string) *problem.Problem {
	return (problem.Problem{Code: code.Conflict, Detail: detail, Remedy: remedy}).Complete()
}

func messageEditPage(v messageEdit) frame.Page {
	p := frame.Page{Title: "Edit " + v.Name, Section: "/messages", Template: "message_edit.html", Data: v, Styles: []string{"message.css"}, Scripts: []string{"edit.js"}}
	if v.Problem != nil {
		p.Status = v.Problem.Status
	}
	return p
}

// sendEdit shows what an edit changes and who gets it. Once that was seen, it replays the failure with the edited
// message. Only what differs is changed, so that all else is sent byte for byte.
func (c messagePages) sendEdit(r *http.Request) (frame.Response, error) {
	v, before, err := c.messageEdit(r)
	v.Text = strings.ReplaceAll(r.PostForm.Get("message"), "\r\n", "\n") // as forms send the ends of lines
	v.Reason, v.Key = strings.TrimSpace(r.PostForm.Get("reason")), r.PostForm.Get("key")
	v.Failure = r.PostForm.Get("failure")
	if err != nil || v.Problem != nil {
		return messageEditPage(v), err
	}
	program, err := v.program(before)
	if err != nil {
		v.Problem = frame.Unprocessable(err.Error(), "")
		return messageEditPage(v), nil
	}
	if v.Review, err = c.review(r, v, before, program); err != nil {
		v.Problem = frame.ProblemOf(err)
		return messageEditPage(v), nil
	}
	if form := r.PostForm; form.Get("do") != "send" || form.Get("reviewed") != v.Review.Of || v.Review.Doubtful() && form.Get("anyway") == "" {
		return messageEditPage(v), nil
	}
	one := 1
	request := replays.Replay{Target: replays.Target{Kind: string(replayer.ToFailedQueue)}, Reason: v.Reason, Expect: &one}
	request.IDs, request.Transform = []string{v.Failure}, program
	job, err := replays.StartReplay.Call(r.Context(), c.api, replays.StartInput{IdempotencyKey: frame.KeyOf(r), Body: request})
	if err != nil {
		v.Problem = frame.ProblemOf(err)
		return messageEditPage(v), nil
	}
	return frame.Redirect("/replays/" + url.PathEscape(job.Body.ID)), nil
}

// program returns the program that makes the edited message of the one that failed.
func (v messageEdit) program(before []byte) (string, error) {
	if !slices.ContainsFunc(v.Open, func(f openFailure) bool { return f.Event == v.Failure }) {
		return "", errors.New("the failure was resolved in the meantime: nothing was sent")
	}
	program, routed, err := transform.Difference(before, []byte(v.Text))
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		line := 1 + strings.Count(v.Text[:min(int(syntax.Offset), len(v.Text))], "\n")
		return "", fmt.Errorf("line %d: the message is not valid JSON: %w", line, syntax)
	case err != nil:
		return "", err
	case program == "":
		return "", errors.New("the message was not edited: nothing was sent")
	case routed:
		return "", errors.New("the message goes to the queue that failed, so its exchange and routing key stay as they are: send a copy to publish it elsewhere")
	}
	return program, nil
}
