package elastic

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/watershipmq/watership/eventstore"
)

// maxQuoted is the maximum length of Elasticsearch's text in an error, in bytes.
const maxQuoted = 1024

// noResponse is the error for a missing or truncated response.
func (c *client) noResponse(operation string, err error) *eventstore.Error {
	return &eventstore.Error{
		Kind:   eventstore.Unavailable,
		Reason: operation + ": no answer from " + c.server() + " at " + c.addresses,
		Err:    err,
	}
}

// invalidResponse is the error for a successful response with invalid content.
func (c *client) invalidResponse(operation, problem string) *eventstore.Error {
	return &eventstore.Error{
		Kind:   eventstore.Unavailable,
		Reason: operation + ": " + c.server() + " at " + c.addresses + " " + problem,
	}
}

// errorResponse is the error for a status other than 2xx.
func (c *client) errorResponse(operation string, status int, header http.Header, body []byte) *eventstore.Error {
	words := errorText(body)
	if words != "" {
		words = ": " + words
	}
	kind := errorKind(status)
	if kind == eventstore.Overloaded && exceedsIndexingPressure(words) {
		kind = eventstore.RequestTooLarge
	}
	return &eventstore.Error{
		Kind:       kind,
		RetryAfter: retryAfter(header.Get("Retry-After"), time.Now()),
		Reason: fmt.Sprintf("%s: %s at %s answered %d %s%s",
			operation, c.server(), c.addresses, status, http.StatusText(status), words),
	}
}

// server names the product in errors.
func (c *client) server() string {
	if product := c.product.Load(); product != nil {
		return product.String()
	}
	return Elasticsearch.String()
}

// errorKind maps an HTTP status (RFC 9110 §15) to the remedy.
func errorKind(status int) eventstore.ErrorKind {
	switch {
	case status == http.StatusBadRequest:
		return eventstore.BadRequest
	case status == http.StatusRequestEntityTooLarge:
		return eventstore.RequestTooLarge
	case status == http.StatusTooManyRequests:
		return eventstore.Overloaded
	case status >= 500, status == http.StatusRequestTimeout:
		return eventstore.Unavailable
	}
	// 401, 403 and 404, and statuses of proxies only, such as a redirect: retrying
	// does not help.
	return eventstore.Unauthorized
}

// retryAfter parses seconds or a date (RFC 9110 §10.2.3); 0 if it is neither.
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(value); err == nil && seconds > 0 {
		return time.Duration(seconds) * time.Second
	}
	if date, err := http.ParseTime(value); err == nil && date.After(now) {
		return date.Sub(now)
	}
	return 0
}

// errorText is the text of an error's body, which a proxy may have written in HTML.
func errorText(body []byte) string {
	var response struct {
		Error *cause `json:"error"`
	}
	if err := json.Unmarshal(body, &response); err == nil && response.Error != nil {
		return response.Error.String()
	}
	return oneLine(string(body))
}

// cause is an error of Elasticsearch: an object or a string.
type cause struct {
	Type      string  `json:"type"`
	Reason    string  `json:"reason"`
	Index     string  `json:"index"`
	CausedBy  *cause  `json:"caused_by"`
	RootCause []cause `json:"root_cause"`
}

// UnmarshalJSON unmarshals both forms.
func (c *cause) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		return json.Unmarshal(data, &c.Reason)
	}
	type object cause // without this method
	return json.Unmarshal(data, (*object)(c))
}

// String prints the error and its causes, each text once.
func (c *cause) String() string {
	text := ""
	for _, words := range c.texts() {
		switch {
		case text == "":
			text = words
		case !strings.Contains(text, words):
			text += ": " + words
		}
	}
	return oneLine(text)
}

// texts lists types and reasons. Of the root causes, one a shard, it includes the first
// of each type.
func (c *cause) texts() []string {
	list := []string{c.Type, c.Reason}
	for _, root := range c.RootCause {
		if !slices.Contains(list, root.Type) {
			list = append(list, root.Type, root.Reason)
		}
	}
	for next := c.CausedBy; next != nil; next = next.CausedBy {
		list = append(list, next.Reason)
	}
	return list
}

// errorContains reports whether Elasticsearch's error contains a text.
func errorContains(err error, part string) bool {
	var failed *eventstore.Error
	return errors.As(err, &failed) && strings.Contains(failed.Reason, part)
}

// joinErrors joins errors on one line. Either can be nil.
func joinErrors(a, b error) error {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return fmt.Errorf("%w; %w", a, b)
}

// oneLine shortens a text to one line for an error.
func oneLine(text string) string {
	cut := len(text) > maxQuoted
	if cut {
		text = text[:maxQuoted]
	}
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "\ufffd")), " ")
	if cut {
		text += " …"
	}
	return text
}
