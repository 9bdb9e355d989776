package schemas

import (
	"strings"
	"unicode"

	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/schemas/internal/errorgroup"
)

const errorGroupLimit = 512 // bytes

// ErrorGroup returns the text that failures of one kind share: Group, or the message with every
// value that differs between them as "#", such as numbers, ids, times, addresses and quoted
// values. Statuses, codes of errors and names of queues and exchanges stay. Of a stack, JSON or
// HTML it is what that says about the error.
func (f Failure) ErrorGroup(names ...string) string {
	if f.Group != "" {
		return groupText(f.Group)
	}
	return errorgroup.Fold(f.Message, errorGroupLimit, names)
}

// FormerErrorGroup returns the group that versions of Watership up to 2026-11 gave the failure,
// which their documents have.
func (f Failure) FormerErrorGroup(names ...string) string {
	const limit = 256
	return header.Shorten(errorgroup.Former(f.Message, limit, names), limit)
}

// HasFormerGroup reports whether Group may be one of versions up to 2026-11. A group of this
// version stays as it is when it is made again.
func (f Failure) HasFormerGroup(names ...string) bool {
	announces := f.Group == "" || strings.HasSuffix(f.Group, "{") || strings.HasSuffix(f.Group, "[") || strings.HasSuffix(f.Group, ":")
	return announces || Failure{Message: f.Group}.ErrorGroup(names...) != f.Group
}

// groupText returns a group that a handler named, on one line.
func groupText(group string) string {
	group = strings.ToValidUTF8(group, "")
	if strings.ContainsFunc(group, unicode.IsControl) {
		group = strings.Join(strings.FieldsFunc(group, unicode.IsControl), " ")
	}
	return header.Shorten(strings.TrimSpace(group), errorGroupLimit)
}

// ErrorGroup returns the group of the event's failure. A `triaged` event has the text of its
// group as the message.
func (e Event) ErrorGroup() string {
	if e.Action == Triaged {
		return e.Failure.Message
	}
	return e.Failure.ErrorGroup(e.Queue, e.Envelope.Exchange)
}
