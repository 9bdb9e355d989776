package privacy

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/watershipmq/watership/internal/topology/topicpattern"
	"github.com/watershipmq/watership/schemas"
)

// Rule names values that are replaced in the events of some messages. It has exactly one of
// Header, JSON, Text and Pattern.
type Rule struct {
	Exchange string // of the first publish; "": every exchange
	Key      string // pattern of routing keys, as of a topic exchange; "": every key

	Header string // name of a header, in any case; its whole value is replaced
	JSON   string // names of members in a JSON body, with dots between; * is any name, and lists count as their elements
	Text   string // one of Texts; it is replaced as a whole

	// Pattern is one of Patterns, or a regular expression (RE2); with a group, the group is replaced. Its
	// matches are replaced in bodies with their names of members, headers, properties, routing keys, ids of
	// streams, errors with their types, groups and stacks, answers, names of receivers, and texts of audit events.
	Pattern string

	As string // first part of what replaces a value; "": the name of the pattern, or "value"

	// Subject is whether the value is the id of the person whom the message is about, see SubjectKeys. Header, JSON
	// and a Text of the message can have one.
	Subject bool
}

// maxExpression bounds a regular expression, in bytes. RE2 takes time that is linear in the text and
// in the size of the expression.
const maxExpression = 1000

// Texts are the values of Rule.Text.
func Texts() []string {
	return []string{"answer", "app_id", "correlation_id", "error", "message_id", "reply_to", "routing_key", "stack", "stream", "type", "user_id"}
}

// texts returns the texts of an event that have a name of Texts.
func texts(e *schemas.Event, name string) []*string {
	p := &e.Envelope.Properties
	switch name {
	case "answer":
		return []*string{&e.Answer}
	case "app_id":
		return []*string{&p.AppID}
	case "correlation_id":
		return []*string{&p.CorrelationID}
	case "error":
		return []*string{&e.Failure.Message, &e.Failure.Group, &e.QuarantinedFailure.Message}
	case "message_id":
		return []*string{&p.MessageID}
	case "reply_to":
		return []*string{&p.ReplyTo}
	case "routing_key":
		return []*string{&e.Envelope.RoutingKey}
	case "stack":
		return []*string{&e.Failure.Stack, &e.QuarantinedFailure.Stack}
	case "stream":
		return []*string{&e.Stream.ID}
	case "type":
		return []*string{&p.Type}
	}
	return []*string{&p.UserID}
}

// Check returns the mistake in a rule.
func (r Rule) Check() error {
	_, err := r.compile()
	return err
}

// rule is a Rule that is ready to be applied.
type rule struct {
	Rule
	path      []string   // of JSON
	detectors []detector // of Pattern
}

var isLabel = regexp.MustCompile(`^[a-z][a-z0-9]{0,19}$`)

func (r Rule) compile() (c rule, err error) {
	c.Rule = r
	kinds := 0
	for _, value := range []string{r.Header, r.JSON, r.Text, r.Pattern} {
		if value != "" {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		return c, errors.New("expected one of header, json, text and pattern")
	case r.As != "" && !isLabel.MatchString(r.As):
		return c, fmt.Errorf("as: %q: expected up to 20 small letters and digits, the first a letter", r.As)
	case r.Text != "" && !slices.Contains(Texts(), r.Text):
		return c, fmt.Errorf("text: %q: expected one of %s", r.Text, strings.Join(Texts(), ", "))
	case r.Subject && (r.Pattern != "" || isOfEvent(r.Text)):
		return c, errors.New("subject: expected it with header, json, or a text of the message")
	}
	if r.JSON != "" {
		c.path = strings.Split(r.JSON, ".")
		if slices.Contains(c.path, "") {
			return c, fmt.Errorf("json: %q: expected names with dots between, such as customer.email", r.JSON)
		}
		if c.path[0] == "$" || strings.Contains(r.JSON, "[") {
			return c, fmt.Errorf("json: %q: expected names with dots between, such as customer.email, and no JSONPath: lists count as their elements", r.JSON)
		}
	}
	c.As = cmp.Or(r.As, "value")
	if r.Pattern != "" {
		c.detectors, err = detectorsOf(r.Pattern)
		if slices.Contains(Patterns(), r.Pattern) {
			c.As = cmp.Or(r.As, r.Pattern)
		}
	}
	return c, err
}

// appliesTo reports whether a rule is about the message of an event. Where the origin is not known
// for certain, every rule is.
func (r *rule) appliesTo(e *schemas.Event) bool {
	if r.Exchange == "" && r.Key == "" {
		return true
	}
	if e.Action.OfNoMessage() || e.OriginClaimed || isNoEvent(e) {
		return true
	}
	key := e.Envelope.RoutingKey
	isHashed := e.Envelope.Redacted && HasHash(key) // by other rules
	return (r.Exchange == "" || r.Exchange == e.Envelope.Exchange) && (r.Key == "" || isHashed || topicpattern.Matches(r.Key, key))
}

// isNoEvent reports whether an event is of a message in the log that is none.
func isNoEvent(e *schemas.Event) bool {
	_, isEvent := e.Refused()
	return e.Action == schemas.Quarantined && !isEvent
}

// may reports whether a text can have a value of the pattern, which is quick.
func (r *rule) may(text string) bool {
	return slices.ContainsFunc(r.detectors, func(d detector) bool { return d.may(text) })
}
