package target

import "fmt"

// Kinds of problems, by which failures are grouped.
const (
	MissingField   = "field_missing"
	InvalidField   = "field_invalid"
	RefusedHost    = "host_not_allowed"
	RefusedAddress = "address_not_allowed"
)

// Problem is the reason why no request can be made of a message. It has no value that may
// be secret.
type Problem struct{ Kind, Text string }

func (p *Problem) Error() string { return p.Text }

// Missing is the Problem of a message without a field.
func Missing(f Field) *Problem {
	return &Problem{MissingField, "the message has no " + f.Name}
}

// Invalid is the Problem of a field with a value that cannot be sent.
func Invalid(f Field, format string, args ...any) *Problem {
	return &Problem{InvalidField, f.Name + " " + fmt.Sprintf(format, args...)}
}
