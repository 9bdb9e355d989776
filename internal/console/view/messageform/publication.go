package messageform

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/schemas"
)

// PropertyNames returns the properties of the form, in its order.
func PropertyNames() []string {
	return []string{
		"message_id", "correlation_id", "type", "content_type", "content_encoding", "app_id", "reply_to", "expiration", "priority", "timestamp",
	}
}

// NotCopied returns the properties that a copy has only if the form sets them.
func NotCopied() []string { return []string{"message_id", "reply_to", "timestamp"} }

func properties(p schemas.Properties) map[string]string {
	all := map[string]string{
		"message_id": p.MessageID, "correlation_id": p.CorrelationID, "type": p.Type, "content_type": p.ContentType,
		"content_encoding": p.ContentEncoding, "app_id": p.AppID, "reply_to": p.ReplyTo, "expiration": p.Expiration,
	}
	if p.Priority > 0 {
		all["priority"] = strconv.Itoa(int(p.Priority))
	}
	if !p.Timestamp.IsZero() {
		all["timestamp"] = p.Timestamp.UTC().Format(time.RFC3339)
	}
	return all
}

// OriginalProperty returns a property of the original, as a text.
func OriginalProperty(p schemas.Properties, name string) string { return properties(p)[name] }

// Publication returns the request that publishes the copy of a message with an id.
func (f Form) Publication(original string) (messages.Publication, error) {
	p := messages.Publication{Exchange: f.Exchange, RoutingKey: f.RoutingKey, Original: original}
	if f.Queue != "" {
		p.Exchange, p.RoutingKey = "", f.Queue
	}
	var err error
	if p.Properties, err = f.properties(); err != nil {
		return p, err
	}
	names := map[string]bool{}
	for _, h := range f.Headers {
		if names[h.Name] {
			return p, fmt.Errorf("header %q is there twice: remove one", h.Name)
		}
		names[h.Name] = true
		if !slices.Contains(Types(), h.Type) {
			return p, fmt.Errorf("header %q has the type %q: expected one of %s", h.Name, h.Type, strings.Join(Types(), ", "))
		}
		member, err := h.member()
		if err != nil {
			return p, err
		}
		p.Typed = append(p.Typed, member)
	}
	switch f.BodyKind {
	case Original:
		p.OriginalBody = true
	case Base64:
		if p.Base64, err = base64.StdEncoding.DecodeString(strings.Join(strings.Fields(f.Body), "")); err != nil {
			return p, fmt.Errorf("body: expected base64: %w", err)
		}
	default:
		p.Text = strings.ReplaceAll(f.Body, "\r\n", "\n")
		if f.CRLF {
			p.Text = strings.ReplaceAll(p.Text, "\n", "\r\n")
		}
	}
	return p, nil
}

// CheckBody reports a body that is not valid JSON, though its content type says that it is JSON.
func CheckBody(p messages.Publication) error {
	if p.Text == "" || !ClaimsJSON(p.Properties.ContentType) {
		return nil
	}
	var value any
	err := json.Unmarshal([]byte(p.Text), &value)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		line := 1 + strings.Count(p.Text[:min(int(syntax.Offset), len(p.Text))], "\n")
		return fmt.Errorf("body: line %d is not valid JSON, which the content type %s says: %w", line, p.Properties.ContentType, syntax)
	}
	return nil
}

func (f Form) properties() (messages.Properties, error) {
	p := messages.Properties{
		MessageID: f.Properties["message_id"], CorrelationID: f.Properties["correlation_id"], Type: f.Properties["type"],
		ContentType: f.Properties["content_type"], ContentEncoding: f.Properties["content_encoding"], AppID: f.Properties["app_id"],
		ReplyTo: f.Properties["reply_to"], Expiration: f.Properties["expiration"],
	}
	if text := f.Properties["priority"]; text != "" {
		priority, err := strconv.ParseUint(text, 10, 8)
		if err != nil {
			return p, fmt.Errorf("priority %q: expected a number from 0 to 255", text)
		}
		p.Priority = uint8(priority)
	}
	if text := f.Properties["timestamp"]; text != "" {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return p, fmt.Errorf("timestamp %q: expected a time such as 2026-05-04T03:02:01Z", text)
		}
		p.Timestamp = at
	}
	return p, nil
}

// ClaimsJSON reports whether a content type is one of JSON.
func ClaimsJSON(contentType string) bool {
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && (kind == "application/json" || kind == "text/json" || strings.HasSuffix(kind, "+json"))
}
