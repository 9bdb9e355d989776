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

	"github.com/watershipmq/watership/schemas"
)

// quoted is how much of Elasticsearch's words an error repeats, in bytes.
const quoted = 1024

// noAnswer is a request that was not answered, or not to the end.
func (s *Store) noAnswer(doing string, err error) *schemas.StoreError {
	return &schemas.StoreError{
		Kind:   schemas.StoreAway,
		Reason: doing + ": no answer from Elasticsearch at " + s.where,
		Err:    err,
	}
}

// nonsense is a request that was answered with something that is no answer to it.
func (s *Store) nonsense(doing, problem string) *schemas.StoreError {
	return &schemas.StoreError{
		Kind:   schemas.StoreAway,
		Reason: doing + ": Elasticsearch at " + s.where + " " + problem,
	}
}

// refusal is a request that was answered with an error.
func (s *Store) refusal(doing string, status int, header http.Header, body []byte) *schemas.StoreError {
	words := explain(body)
	if words != "" {
		words = ": " + words
	}
	kind := kind(status)
	if kind == schemas.StoreBusy && beyondPressure(words) {
		kind = schemas.StoreTooLarge
	}
	return &schemas.StoreError{
		Kind:       kind,
		RetryAfter: retryAfter(header.Get("Retry-After"), time.Now()),
		Reason: fmt.Sprintf("%s: Elasticsearch at %s answered %d %s%s",
			doing, s.where, status, http.StatusText(status), words),
	}
}

// kind says what to do about an HTTP status (RFC 9110 §15).
func kind(status int) schemas.StoreErrorKind {
	switch {
	case status == http.StatusBadRequest:
		return schemas.StoreRefused
	case status == http.StatusRequestEntityTooLarge:
		return schemas.StoreTooLarge
	case status == http.StatusTooManyRequests:
		return schemas.StoreBusy
	case status >= 500, status == http.StatusRequestTimeout:
		return schemas.StoreAway
	}
	// 401, 403 and 404, and what only something in between answers, such as a
	// redirect: none goes away by itself.
	return schemas.StoreDenied
}

// retryAfter reads seconds or a date (RFC 9110 §10.2.3); 0 if it is neither.
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(value); err == nil && seconds > 0 {
		return time.Duration(seconds) * time.Second
	}
	if date, err := http.ParseTime(value); err == nil && date.After(now) {
		return date.Sub(now)
	}
	return 0
}

// explain finds the words in an error's body, which is a page of HTML where
// something else than Elasticsearch wrote it.
func explain(body []byte) string {
	var answer struct {
		Error *cause `json:"error"`
	}
	if err := json.Unmarshal(body, &answer); err == nil && answer.Error != nil {
		return answer.Error.String()
	}
	return oneLine(string(body))
}

// cause is an error as Elasticsearch writes it: an object or a mere string.
type cause struct {
	Type      string  `json:"type"`
	Reason    string  `json:"reason"`
	Index     string  `json:"index"`
	CausedBy  *cause  `json:"caused_by"`
	RootCause []cause `json:"root_cause"`
}

// UnmarshalJSON reads both forms.
func (c *cause) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		return json.Unmarshal(data, &c.Reason)
	}
	type object cause // without this method
	return json.Unmarshal(data, (*object)(c))
}

// String is the error and what caused it, each thing said once.
func (c *cause) String() string {
	text := ""
	for _, words := range c.words() {
		switch {
		case text == "":
			text = words
		case !strings.Contains(text, words):
			text += ": " + words
		}
	}
	return oneLine(text)
}

// words are types and reasons. Of the root causes, one a shard, the first of a
// type says enough.
func (c *cause) words() []string {
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

// says whether Elasticsearch gave an error in which these words are.
func says(err error, words string) bool {
	var failed *schemas.StoreError
	return errors.As(err, &failed) && strings.Contains(failed.Reason, words)
}

// and joins errors on one line. Either may be nil.
func and(a, b error) error {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return fmt.Errorf("%w; %w", a, b)
}

// oneLine keeps an error on one line, and short whatever was answered.
func oneLine(text string) string {
	cut := len(text) > quoted
	if cut {
		text = text[:quoted]
	}
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "\ufffd")), " ")
	if cut {
		text += " …"
	}
	return text
}
