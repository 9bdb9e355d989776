package frame

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/watershipmq/watership/internal/operation/problem"
)

// TypedAbove is the number of messages above which an operator types the number.
const TypedAbove = 100

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
	return (problem.Problem{Status: http.StatusUnprocessableEntity, Detail: detail, Remedy: remedy}).Complete()
}
