package webhook

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/template/messagefield"
	"github.com/watershipmq/watership/internal/template/requestheader"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// Meaning is the meaning of a response for a message.
type Meaning string

// The meanings of a response.
const (
	Handled     Meaning = "handled"     // done
	Retry       Meaning = "retry"       // an attempt that failed
	Poison      Meaning = "poison"      // no further attempt can succeed
	Unavailable Meaning = "unavailable" // the service cannot take the message now: see retry.Unavailable
)

// Meanings lists every Meaning.
func Meanings() []Meaning {
	return []Meaning{Handled, Retry, Poison, Unavailable}
}

// Answer gives responses a meaning. It applies to responses that match each condition
// that is set.
type Answer struct {
	Status string // such as "404", or "4xx"; "": any
	Header string // name of a header of the response; "": none

	// Field is a JSON pointer (RFC 6901), such as "/error/code", to a value in a body of
	// at most 64 KiB. "": none. An Answer has a Header or a Field.
	Field string

	// Value is the value of Header or Field as text, such as "true" or "17". "": any
	// value that is not empty or null.
	Value string

	Means Meaning // "": the meaning by default, or Retry if that is Handled
	Class string  // of the failure, by which a policy chooses delays; "": none
}

// Headers by which a service says the meaning of its response itself. They take
// precedence over Config.Answers, and an unknown or unprintable value has no effect.
const (
	meaningHeader   = "Watership-Outcome"
	classHeader     = "Watership-Class"
	errorTypeHeader = "Watership-Error-Type"
	groupHeader     = "Watership-Error-Group"
)

// progressHeader says in a response how far the service got, and in the next request how
// far it got before.
const progressHeader = "Watership-Progress"

const longestName = 100 // bytes of a class or an error type in a header

// StatusError is a response after which the message is not handled.
type StatusError struct {
	Status int
	URL    string // scheme and host only, as the rest may be secret
	Body   string // its first KiB
	Type   string // of the failure, by the service; "": none
}

func (e *StatusError) Error() string {
	status := http.StatusText(e.Status)
	text := fmt.Sprintf("%s answered %d %s", e.URL, e.Status, status)
	if e.Body == "" || strings.EqualFold(e.Body, status) || strings.EqualFold(e.Body, fmt.Sprintf("%d %s", e.Status, status)) {
		return text // many servers answer with the status alone
	}
	return text + ": " + e.Body
}

// ErrorType returns the type of the failure for retry.TypeOf.
func (e *StatusError) ErrorType() string { return e.Type }

// Validate returns every error of the configuration: a template that cannot be parsed, a
// URL that cannot be requested, a method or a header that may not be used, hosts that are
// missing or have no effect, a client that cannot check addresses, a secret of another length than ParseSecrets accepts, and
// in Answers a status that is neither from 200 to 599 nor a class of them, a bad header or
// JSON pointer, an unknown meaning, or nothing to do.
func (c Config) Validate() error {
	_, err := c.templates()
	errs := []error{err}
	for _, name := range c.Headers {
		if err := requestheader.Check(name); err != nil {
			errs = append(errs, fmt.Errorf("header %q: %w", name, err))
		}
	}
	for _, secret := range c.Secrets {
		errs = append(errs, checkSecret(secret))
	}
	for i, answer := range c.Answers {
		if err := answer.validate(); err != nil {
			errs = append(errs, fmt.Errorf("answer %d: %w", i+1, err))
		}
	}
	return errors.Join(errs...)
}

func (a Answer) validate() error {
	known := regexp.MustCompile(`^[2-5]([0-9][0-9]|xx)$`)
	switch {
	case a.Status == "" && a.Header == "" && a.Field == "":
		return errors.New("expected a status, a header or a field")
	case a.Header != "" && a.Field != "":
		return errors.New("expected a header or a field, not both")
	case a.Status != "" && !known.MatchString(a.Status):
		return fmt.Errorf("status %q: expected one from 200 to 599, or 2xx, 3xx, 4xx or 5xx", a.Status)
	case a.Header != "" && !requestheader.IsToken(a.Header):
		return fmt.Errorf("header %q: expected the name of a header", a.Header)
	case a.Field != "" && a.Field[0] != '/':
		return fmt.Errorf("field %q: expected a JSON pointer such as /error/code", a.Field)
	case a.Value != "" && a.Header == "" && a.Field == "":
		return fmt.Errorf("value %q: expected a header or a field that has it", a.Value)
	case a.Means == "" && a.Class == "":
		return errors.New("expected a meaning or a class")
	case a.Means != "" && !slices.Contains(Meanings(), a.Means):
		return fmt.Errorf("meaning %q: expected one of %v", a.Means, Meanings())
	}
	return nil
}

// response is the part of a response that decides.
type response struct {
	status int
	header http.Header
	body   []byte // its beginning
}

// text returns the beginning of the body, up to most bytes.
func (r response) text(most int) string {
	text := r.decoded()
	return strings.TrimSpace(strings.ToValidUTF8(string(text[:min(len(text), most)]), "�"))
}

// decoded returns the body in UTF-8, if it has a charset. The transport has decompressed it.
func (r response) decoded() []byte {
	e := schemas.Envelope{Properties: schemas.Properties{ContentType: r.header.Get("Content-Type")}, Body: r.body}
	if text, isText := e.BodyText(); isText {
		return text
	}
	return r.body
}

// classify returns the error of a response of a service for package retry, nil if the
// message is handled.
func (p *poster) classify(from string, r response) error {
	means, class := p.meaning(r)
	if means == Handled {
		return nil
	}
	var err error = &StatusError{
		Status: r.status, URL: from, Body: r.text(errorBody), Type: named(r.header.Get(errorTypeHeader)),
	}
	if class != "" {
		err = retry.Class(class, err)
	}
	if group := groupOf(from, r); group != "" {
		err = retry.Group(group, err)
	}
	if progress, reported := r.header[progressHeader]; reported {
		err = retry.Progress(progress[0], err)
	}
	switch means {
	case Retry:
		return p.retryAfter(err, r.header)
	case Unavailable:
		return retry.Unavailable(p.retryAfter(err, r.header))
	}
	return retry.Permanent(err)
}

// groupOf returns the group of failures that a response names, or that its body has beyond the
// part of it that the error keeps, as the last line of a traceback does; "": neither.
func groupOf(from string, r response) string {
	if group := named(r.header.Get(groupHeader)); group != "" || len(r.body) <= errorBody {
		return group
	}
	whole := StatusError{Status: r.status, URL: from, Body: r.text(groupBody)}
	return schemas.Failure{Message: whole.Error()}.ErrorGroup()
}

// meaning returns the meaning and the class of a response: by its own headers, by the first
// answer of the configuration that matches, or by default.
func (p *poster) meaning(r response) (means Meaning, class string) {
	means = defaultMeaning(r)
	if i := slices.IndexFunc(p.Answers, func(a Answer) bool { return a.matches(r) }); i >= 0 {
		means, class = p.Answers[i].apply(means)
	}
	if own := Meaning(r.header.Get(meaningHeader)); slices.Contains(Meanings(), own) {
		means = own
	}
	if own := named(r.header.Get(classHeader)); own != "" {
		class = own
	}
	return means, class
}

// named returns a name from a header, "" if it is too long or not printable.
func named(name string) string {
	if len(name) > longestName || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) {
		return ""
	}
	return name
}

// defaultMeaning returns the meaning of a response without its own. A service that asks for a
// pause is unavailable.
func defaultMeaning(r response) Meaning {
	if r.status == http.StatusTooManyRequests && r.header.Get("Retry-After") != "" {
		return Unavailable
	}
	return DefaultMeaning(r.status)
}

// DefaultMeaning returns the meaning of an HTTP status for which neither the response nor the
// configuration has one. 401, 403, 404, 405 and redirects may be the fault of one message as well
// as of a bad deployment: the route's breaker finds out which. 407 and 421 are of a proxy, or of a
// server for other hosts, and of no message.
func DefaultMeaning(status int) Meaning {
	switch status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return Unavailable
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests, http.StatusProxyAuthRequired, http.StatusMisdirectedRequest,
		http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed:
		return Retry
	}
	switch status / 100 {
	case 2:
		return Handled
	case 1, 3, 5:
		return Retry
	}
	return Poison
}

// apply returns the meaning and the class of a response that has this meaning by default.
func (a Answer) apply(byDefault Meaning) (means Meaning, class string) {
	switch {
	case a.Means != "":
		return a.Means, a.Class
	case byDefault == Handled:
		return Retry, a.Class
	}
	return byDefault, a.Class
}

func (a Answer) matches(r response) bool {
	if status := strconv.Itoa(r.status); a.Status != "" && a.Status != status && a.Status != status[:1]+"xx" {
		return false
	}
	switch {
	case a.Header != "":
		return a.has(r.header.Get(a.Header))
	case a.Field != "":
		return a.has(messagefield.JSONText(r.decoded(), a.Field))
	}
	return true
}

func (a Answer) has(text string) bool { return text != "" && (a.Value == "" || a.Value == text) }

// retryAfter adds the time of a Retry-After header to an error (RFC 9110 §10.2.3):
// seconds, or a date on the clock of the service, which its Date header has.
func (p *poster) retryAfter(err error, header http.Header) error {
	value := header.Get("Retry-After")
	seconds, bad := strconv.ParseUint(value, 10, 31)
	if bad == nil || errors.Is(bad, strconv.ErrRange) { // then it is the most that fits
		return retry.AtLeast(min(time.Duration(seconds)*time.Second, p.MaxRetryAfter), err)
	}
	date, bad := http.ParseTime(value)
	if bad != nil {
		return err
	}
	now, bad := http.ParseTime(header.Get("Date"))
	if bad != nil {
		now = time.Now()
	}
	return retry.AtLeast(min(date.Sub(now), p.MaxRetryAfter), err)
}
