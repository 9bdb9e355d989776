package columns

import (
	"fmt"
	"strings"

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

// ErrorText returns the failure of an event, and for an audit event the action of the user.
func ErrorText(e schemas.Event) string {
	if e.RecordedAction() == schemas.Audited {
		return AuditText(e)
	}
	return e.Failure.Message
}

// AuditText tells who did what, from where, why, and whether it was refused.
func AuditText(e schemas.Event) string {
	user := "nobody known"
	if e.Audit.User != "" {
		user = fmt.Sprintf("%s (%s)", e.Audit.User, e.Audit.Method)
	}
	text := fmt.Sprintf("%s %s by %s from %s", e.Audit.Operation, e.Audit.Object, user, e.Audit.Address)
	if e.Audit.Reason != "" {
		text += ": " + e.Audit.Reason
	}
	if e.Audit.Refused {
		text = fmt.Sprintf("refused or failed (%s): %s", strings.TrimSuffix(e.Failure.Type+": "+e.Failure.Message, ": "), text)
	}
	return text
}
