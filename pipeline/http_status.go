package pipeline

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/watershipmq/watership/internal/requestheader"
	"github.com/watershipmq/watership/retry"
)

// Meaning is the meaning of an HTTP status for a message.
type Meaning string

// The meanings of a response.
const (
	MeansHandled     Meaning = "handled"     // done
	MeansRetry       Meaning = "retry"       // an attempt that failed
	MeansPoison      Meaning = "poison"      // no further attempt can succeed
	MeansUnavailable Meaning = "unavailable" // the service cannot take the message now: see retry.Unavailable
)

// Meanings lists every Meaning.
func Meanings() []Meaning {
	return []Meaning{MeansHandled, MeansRetry, MeansPoison, MeansUnavailable}
}

// StatusError is a response after which the message is not handled.
type StatusError struct {
	Status int
	URL    string // scheme and host only, as the rest may be secret
	Body   string // its first KiB
}

func (e *StatusError) Error() string {
	text := fmt.Sprintf("%s answered %d %s", e.URL, e.Status, http.StatusText(e.Status))
	if e.Body != "" {
		text += ": " + e.Body
	}
	return text
}

// Validate returns every error of the configuration: a URL that cannot be posted to, a
// key of Statuses that is neither a status from 200 to 599 nor a class of them, an
// unknown meaning, a header that may not be listed.
func (c HTTPConfig) Validate() error {
	var errs []error
	request, err := http.NewRequest(http.MethodPost, c.URL, nil)
	if err != nil || request.URL.Scheme != "http" && request.URL.Scheme != "https" || request.URL.Host == "" {
		errs = append(errs, fmt.Errorf("URL %s: expected http or https and a host", shownURL(c.URL)))
	}
	for _, name := range c.Headers {
		if err := requestheader.Check(name); err != nil {
			errs = append(errs, fmt.Errorf("header %q: %w", name, err))
		}
	}
	known := regexp.MustCompile(`^[2-5]([0-9][0-9]|xx)$`)
	for status, meaning := range c.Statuses {
		if !known.MatchString(status) {
			errs = append(errs, fmt.Errorf("status %q: expected one from 200 to 599, or 2xx, 3xx, 4xx or 5xx", status))
		}
		if !slices.Contains(Meanings(), meaning) {
			errs = append(errs, fmt.Errorf("status %q: meaning %q: expected one of %v", status, meaning, Meanings()))
		}
	}
	return errors.Join(errs...)
}

// classifyResponse returns the error of a response for package retry, nil if the message is handled.
func (p *httpPoster) classifyResponse(err *StatusError, header http.Header) error {
	switch p.meaning(err.Status, header) {
	case MeansHandled:
		return nil
	case MeansRetry:
		return p.retryAfter(err, header)
	case MeansUnavailable:
		return retry.Unavailable(p.retryAfter(err, header))
	}
	return retry.Permanent(err)
}

// meaning returns the meaning of a status. 401, 403, 404, 405 and redirects may be the
// fault of one message as well as of a bad deployment: the route's breaker finds out which.
// 407 and 421 are of a proxy, or of a server for other hosts, and of no message.
func (p *httpPoster) meaning(status int, header http.Header) Meaning {
	if meaning, said := p.Statuses[strconv.Itoa(status)]; said {
		return meaning
	}
	if meaning, said := p.Statuses[strconv.Itoa(status/100)+"xx"]; said {
		return meaning
	}
	switch status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return MeansUnavailable
	case http.StatusTooManyRequests:
		if header.Get("Retry-After") != "" {
			return MeansUnavailable
		}
		return MeansRetry
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusProxyAuthRequired, http.StatusMisdirectedRequest,
		http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed:
		return MeansRetry
	}
	switch status / 100 {
	case 2:
		return MeansHandled
	case 1, 3, 5:
		return MeansRetry
	}
	return MeansPoison
}

// retryAfter adds the time of a Retry-After header to an error (RFC 9110 §10.2.3):
// seconds, or a date on the clock of the service, which its Date header has.
func (p *httpPoster) retryAfter(err error, header http.Header) error {
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
