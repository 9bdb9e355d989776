package schemas

// The values of watership.redacted. The field is not in the mapping, since readers look at events
// that they have.
const (
	redactedTexts   = "texts" // of the event alone, such as its error
	redactedMessage = "message"
)

func (e *Event) redacted() string {
	switch {
	case e.Envelope.Redacted:
		return redactedMessage
	case e.Redacted:
		return redactedTexts
	}
	return ""
}

func (e *Event) readRedacted(value string) {
	e.Redacted, e.Envelope.Redacted = value != "", value == redactedMessage
}
