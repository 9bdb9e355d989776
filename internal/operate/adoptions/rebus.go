package adoptions

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/watershipmq/watership/schemas"
)

// Headers of Rebus (https://github.com/rebus-org/Rebus/wiki/Automatic-retries-and-error-handling).
const (
	rebusError = "rbs2-error-details"
	rebusQueue = "rbs2-source-queue"
	rebusSent  = "rbs2-senttime"
	rebusCount = "rbs2-delivery-count" // Rebus believes it where the broker counts none
)

// The details of a message that failed several times begin with a number. Rebus 8 writes each
// exception as "TIME: TYPE: MESSAGE" with its stack trace, in paragraphs; Rebus 6 and 7 write
// them as the inner exceptions of an AggregateException.
var (
	rebusCounted   = regexp.MustCompile(`^(?:System\.AggregateException: )?(\d{1,6}) unhandled exceptions`)
	rebusException = regexp.MustCompile(`(?m)(?:\A\d{1,6} unhandled exceptions: |\n\r?\n)(\d[^\n]{5,40}?): ` + dotNetException)
	rebusInner     = regexp.MustCompile(`(?m)(?:\A|\n ---> )(?:\(Inner Exception #\d+\) )?` + dotNetException)
)

const dotNetException = "([A-Za-z_][\\w.+`]*)(?:: ([^\\r\\n]*))?\r?$"

// readRebus reads a failure of Rebus, whose header has the exceptions of all attempts.
func readRebus(arrived schemas.Envelope, _ string) (Failure, error) {
	h := headers(arrived.Headers)
	queue := h.text(rebusQueue)
	if queue == "" {
		return Failure{}, missing(h, "Rebus", rebusQueue)
	}
	f := Failure{
		Message: withoutHeaders(arrived, func(name string) bool {
			return name == rebusError || name == rebusQueue || name == rebusCount
		}),
		Stack: h.text(rebusError), Attempts: 1,
	}
	f.to(queue)
	if counted := rebusCounted.FindStringSubmatch(f.Stack); counted != nil {
		f.Attempts, _ = strconv.Atoi(counted[1])
	}
	if found := rebusException.FindAllStringSubmatch(f.Stack, -1); found != nil {
		last := found[len(found)-1]
		f.FailedAt = localTime(last[1], h.time(rebusSent, time.RFC3339Nano))
		f.ErrorType, f.Error = last[2], last[3]
	} else if found := rebusInner.FindAllStringSubmatch(f.Stack, -1); found != nil {
		f.ErrorType, f.Error = found[len(found)-1][1], found[len(found)-1][2]
	}
	first, _, _ := strings.Cut(f.Stack, "\n")
	f.Error = cmp.Or(f.Error, f.ErrorType, strings.TrimSpace(first))
	return f, nil
}

// localTime reads a time in the language of a machine, in which 3/4 is a day in March or in April:
// it is the one that follows the publish more closely. It is zero for other languages.
func localTime(text string, published time.Time) (closest time.Time) {
	for _, layout := range []string{
		"01/02/2006 15:04:05 -07:00", "02/01/2006 15:04:05 -07:00", "1/2/2006 3:04:05 PM -07:00", "02.01.2006 15:04:05 -07:00", "2006-01-02 15:04:05 -07:00",
	} {
		at, err := time.Parse(layout, text)
		if err == nil && !published.IsZero() && !at.Before(published.Truncate(time.Second)) && (closest.IsZero() || at.Before(closest)) {
			closest = at.UTC()
		}
	}
	return closest
}
