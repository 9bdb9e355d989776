package subscription

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/watershipmq/watership/eventstore"
)

// FormatPosition returns a position as text: the sequence, or SEQUENCE:EVENT_ID.
func FormatPosition(position eventstore.Cursor) string {
	text := strconv.FormatInt(position.Sequence, 10)
	if position.EventID != "" {
		text += ":" + position.EventID
	}
	return text
}

// ParsePosition parses the text of FormatPosition.
func ParsePosition(text string) (eventstore.Cursor, error) {
	digits, id, hasID := strings.Cut(text, ":")
	sequence, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || sequence < 0 || sequence > eventstore.MaxSequence || hasID && id == "" {
		return eventstore.Cursor{}, fmt.Errorf("%q is no position: a position is the event.sequence of an event, or SEQUENCE:EVENT_ID", text)
	}
	return eventstore.Cursor{Sequence: sequence, EventID: id}, nil
}
