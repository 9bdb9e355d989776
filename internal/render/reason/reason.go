// Package reason has the rule for texts in which operators say why they decide something.
package reason

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Decision is the decision of an operator and its reason.
type Decision struct{ Operator, Reason string }

// Text returns the reason with the operator.
func (d Decision) Text() string { return By(d.Operator, d.Reason) }

// Parse returns the decision that a text of By is about. A text without a name has no operator.
func Parse(text string) Decision {
	rest, is := strings.CutSuffix(text, ")")
	at := strings.LastIndex(rest, "(")
	if !is || at < 0 {
		return Decision{Reason: text}
	}
	return Decision{Operator: rest[at+1:], Reason: strings.TrimSpace(rest[:at])}
}

// Max is the length of a reason in characters. It is the maxLength of reasons in the HTTP API.
const Max = 1000

// Check reports a mistake in a reason that may be empty.
func Check(text string) error { return CheckText("reason", text) }

// CheckText is Check for a text with another name, such as a note.
func CheckText(name, text string) error {
	if !utf8.ValidString(text) {
		return fmt.Errorf("the %s is not UTF-8", name)
	}
	if n := utf8.RuneCountInString(text); n > Max {
		return fmt.Errorf("the %s has %d characters: expected at most %d", name, n, Max)
	}
	return nil
}

// By returns a reason with the name of the operator, as events have it as the text of an error.
// A long reason is cut in them, and the name is not.
func By(operator, text string) string {
	const room = 1 << 10 // bytes of such a text
	by := strings.TrimSpace(" (" + operator + ")")
	if text = strings.TrimSpace(text); text == "" {
		return by
	}
	if left := room - len(by) - 1; len(text) > left {
		cut := max(0, left-len("…"))
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut] + "…"
	}
	return text + " " + by
}

// Need reports a mistake in a reason that is required.
func Need(text string) error {
	if strings.TrimSpace(text) == "" {
		return errors.New("expected a reason")
	}
	return Check(text)
}
