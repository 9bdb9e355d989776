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

// Shown returns the bounds of an action about what an operator was shown: the number, which must be
// typed if it is large, the sequence up to which, and the reason. what is the word for one of them,
// and needs says that a reason is missing, with its remedy.
func Shown(form url.Values, what, needs, remedy string) (b operation.Bounds, upTo int64, mistake *problem.Problem) {
	b.Reason = strings.TrimSpace(form.Get("reason"))
	count, mistake := ShownCount(form, what)
	b.Expect = &count
	if mistake == nil {
		mistake = CheckTyped(form, count, what)
	}
	if mistake == nil && b.Reason == "" {
		mistake = Unprocessable(needs+" needs a reason", remedy)
	}
	if mistake == nil {
		upTo, mistake = ShownUpTo(form)
	}
	return b, upTo, mistake
}

// ShownCount returns the number of messages that an operator was shown.
func ShownCount(form url.Values, what string) (int, *problem.Problem) {
	count, err := strconv.Atoi(form.Get("expect"))
	if err != nil || count < 0 {
		return 0, Unprocessable("the form has no number of "+what+"s", "Open the page again.")
	}
	return count, nil
}

// ShownUpTo returns the highest sequence of the events that an operator was shown.
func ShownUpTo(form url.Values) (int64, *problem.Problem) {
	upTo, err := strconv.ParseInt(form.Get("up_to"), 10, 64)
	if err != nil || upTo < 1 {
		return 0, Unprocessable("the form has no up_to", "Open the page again.")
	}
	return upTo, nil
}

// CheckTyped refuses a large number of messages that the operator has not typed.
func CheckTyped(form url.Values, count int, what string) *problem.Problem {
	typed := form.Get("count")
	if count > TypedAbove && strings.NewReplacer(",", "", " ", "").Replace(typed) != strconv.Itoa(count) {
		return Unprocessable(fmt.Sprintf("%q is not the number of %ss", typed, what), fmt.Sprintf("Type %d to confirm.", count))
	}
	return nil
}

// Unprocessable is the problem of a form with a mistake.
func Unprocessable(detail, remedy string) *problem.Problem {
	return (problem.Problem{Code: code.InvalidValue, Detail: detail, Remedy: remedy}).Complete()
}

// NeedOperator refuses a page of an action to callers who may not act.
func NeedOperator(r *http.Request, action string) error {
	if caller := access.FromContext(r.Context()); !caller.May(access.Operator) {
		return problem.Forbidden(fmt.Sprintf("%s has the role %s, and %s needs %s", caller.Name, caller.Role, action, access.Operator), "Ask an operator.")
	}
	return nil
}
