package retry

import (
	"fmt"
	"strconv"
	"time"
)

// Headers are the names of headers by which the publisher or the consumer of a queue
// decides about the retries of one message. "": no header. A value that is not a whole
// number from 0 to the maximum has no effect.
type Headers struct {
	Limit string // retries of the message, in place of its policy's number; at most 1000
	Count string // retries that the consumer has counted; more than Watership's replace them; at most 1000
	Delay string // milliseconds before each retry, in place of its policy's delay, as by After; at most 24 h
}

const (
	maxHeaderRetries = 1000
	maxHeaderDelay   = 24 * time.Hour
)

// Apply returns a policy, the number of attempts before the failed one, and its error, as the
// headers of the message change them.
func (h Headers) Apply(headers map[string]any, p Policy, attempts int, failure error) (policy Policy, before int, why error) {
	if limit, ok := headerNumber(headers, h.Limit, maxHeaderRetries); ok {
		p = p.WithAttempts(int(limit) + 1)
	}
	if count, ok := headerNumber(headers, h.Count, maxHeaderRetries); ok {
		attempts = max(attempts, int(count))
	}
	if delay, ok := headerNumber(headers, h.Delay, uint64(maxHeaderDelay.Milliseconds())); ok {
		failure = After(time.Duration(delay)*time.Millisecond, failure)
	}
	return p, attempts, failure
}

// headerNumber returns a header that is a whole number, or a text of one.
func headerNumber(headers map[string]any, name string, most uint64) (n uint64, ok bool) {
	switch value := headers[name].(type) {
	case string, int, int8, int16, int32, int64, uint8, uint16, uint32:
		n, err := strconv.ParseUint(fmt.Sprint(value), 10, 64)
		return n, name != "" && err == nil && n <= most
	}
	return 0, false
}
