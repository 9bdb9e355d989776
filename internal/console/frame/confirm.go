package frame

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/code"

	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/problem"
)

// TypedAbove is the number of messages above which an operator types the number.
const TypedAbove = 100

// Confirmation is what an operator confirms with the form of an action.
type Confirmation struct {
	Name   string // of the action with its article, such as "a discard"
	Unit   string // the word for one object, such as failure
	Reason string // asks for the reason; "": none is needed
	Events bool   // the form has the sequence of the events that were shown
}

// Confirmed has what an operator was shown, and the reason of the action.
type Confirmed struct {
	operation.Bounds
	UpTo int64 // highest sequence of the events; 0: the form has none
}

// Read reads the form, whose number must be typed if it is large, unless the action is on the first objects alone.
func (c Confirmation) Read(form url.Values, onFirst bool) (shown Confirmed, mistake *problem.Problem) {
	shown.Reason = strings.TrimSpace(form.Get("reason"))
	count, err := strconv.Atoi(form.Get("expect"))
	shown.Expect = &count
	shown.UpTo, _ = strconv.ParseInt(form.Get("up_to"), 10, 64)
	switch typed := form.Get("count"); {
	case err != nil || count < 0:
		mistake = Unprocessable("the form has no number of "+c.Unit+"s", "Open the page again.")
	case count > TypedAbove && !onFirst && strings.NewReplacer(",", "", " ", "").Replace(typed) != strconv.Itoa(count):
		mistake = Unprocessable(fmt.Sprintf("%q is not the number of %ss", typed, c.Unit), fmt.Sprintf("Type %d to confirm.", count))
	case c.Reason != "" && shown.Reason == "":
		mistake = Unprocessable(c.Name+" needs a reason", c.Reason)
	case c.Events && shown.UpTo < 1:
		mistake = Unprocessable("the form has no up_to", "Open the page again.")
	}
	return shown, mistake
}

// Unprocessable is the problem of a form with a mistake.
func Unprocessable(detail, remedy string) *problem.Problem {
	return (problem.Problem{Code: code.InvalidValue, Detail: detail, Remedy: remedy}).Complete()
}

// NeedOperator refuses a page of an action to callers who may not act.
func NeedOperator(r *http.Request, action string) error { return Need(r, access.Operator, action) }

// Need refuses a page of an action to callers without its role.
func Need(r *http.Request, role access.Role, action string) error {
	if caller := access.FromContext(r.Context()); !caller.May(role) {
		return problem.Forbidden(fmt.Sprintf("%s has the role %s, and %s needs %s", caller.Name, caller.Role, action, role), "Ask an "+role.String()+".")
	}
	return nil
}
