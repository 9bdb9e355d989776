package columns

import (
	"fmt"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/schemas"
)

// MessageID returns an id by which the message of an event can be found.
func MessageID(e schemas.Event) string {
	if id := e.Envelope.Properties.MessageID; id != "" {
		return id
	}
	if e.Message != "" {
		return e.Message
	}
	return e.EventID
}

// Clock formats a time for the reader of a face.
type Clock func(time.Time) string

// ErrorText returns the failure of an event; of `audited` and `triaged` events, who did what.
func (c Clock) ErrorText(e schemas.Event) string {
	switch e.RecordedAction() {
	case schemas.Audited:
		return AuditText(e)
	case schemas.Triaged:
		return c.TriageText(e)
	}
	return e.Failure.Message
}

// TriageText says what an operator decided about a group of failures, and why.
func (c Clock) TriageText(e schemas.Event) string {
	t := e.Triage
	text := "group " + t.Group + " " + t.Decision
	if t.Assignee != "" {
		text += " to " + t.Assignee
	}
	if !t.Until.IsZero() {
		text += " until " + c(t.Until)
	}
	if t.Count > 0 {
		text += " for " + wording.Plural(t.Count, "failure")
	}
	text += " by " + e.Audit.User
	if e.Audit.Reason != "" {
		text += ": " + e.Audit.Reason
	}
	return text
}

// AuditText says who did what, from where, why, and whether it was refused.
func AuditText(e schemas.Event) string {
	user := "nobody known"
	if e.Audit.User != "" {
		user = fmt.Sprintf("%s (%s)", e.Audit.User, e.Audit.Method)
	}
	text := fmt.Sprintf("%s %s by %s", e.Audit.Operation, e.Audit.Object, user)
	if e.Audit.Address != "" {
		text += " from " + e.Audit.Address
	}
	if e.Audit.Reason != "" {
		text += ": " + e.Audit.Reason
	}
	if e.Audit.Refused {
		text = fmt.Sprintf("refused or failed (%s): %s", strings.TrimSuffix(e.Failure.Type+": "+e.Failure.Message, ": "), text)
	}
	return text
}
