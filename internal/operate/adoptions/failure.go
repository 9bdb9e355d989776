package adoptions

import (
	"maps"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/internal/wire/report"
	"github.com/watershipmq/watership/schemas"
)

// Failure is a failure that another system recorded with a message of its error queue.
type Failure struct {
	// Message is the message as its consumer got it: with the exchange and routing key of
	// its publish, and without the headers of the failure. A message whose exchange is not
	// recorded has the default exchange and the name of its queue.
	Message schemas.Envelope

	Queue     string // whose consumer failed
	Error     string
	ErrorType string    // such as the name of an exception; "": not recorded
	Stack     string    // "": not recorded
	Attempts  int       // 0: not recorded
	FailedAt  time.Time // zero: not recorded
}

const (
	longestError = 1 << 10 // bytes, as in the state of a message
	longestStack = 8 << 10 // bytes
)

// report returns the report by which the failure becomes poison.
func (f Failure) report() report.Report {
	return report.Report{
		Outcome: report.Poison, Message: f.Message,
		Error: shortened(f.Error, longestError), ErrorType: shortened(f.ErrorType, longestError/4), Stack: shortened(f.Stack, longestStack),
		Attempts: min(max(f.Attempts, 0), maxAttempts), FailedAt: f.plausibleTime(),
	}
}

// plausibleTime returns the time of the failure if a report can have it.
func (f Failure) plausibleTime() time.Time {
	if year := f.FailedAt.Year(); year <= 1970 || year > 9999 {
		return time.Time{}
	}
	return f.FailedAt
}

func shortened(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := most
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// to sets the origin to a queue itself, for systems that do not record another.
func (f *Failure) to(queue string) {
	f.Queue = queue
	f.Message.Exchange, f.Message.RoutingKey = "", queue
}

// withoutHeaders returns a message without the headers that a system added to it.
func withoutHeaders(e schemas.Envelope, added func(name string) bool) schemas.Envelope {
	e.Headers = maps.Clone(e.Headers)
	maps.DeleteFunc(e.Headers, func(name string, _ any) bool { return added(name) || header.SetByBroker(name) })
	return e
}

// queueBefore returns the name of an error queue without its ending, "" if it has none of these.
func queueBefore(errorQueue string, endings ...string) string {
	for _, ending := range endings {
		if queue, has := strings.CutSuffix(errorQueue, ending); has {
			return queue
		}
	}
	return ""
}
