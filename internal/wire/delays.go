package wire

import (
	"strconv"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/schemas"
)

// Delays has the names of the delay queues of a Topology, and of the delay queues of a former release,
// whose messages expired to the default exchange.
type Delays struct {
	current, former string // before the number of milliseconds
}

// DelaysOf returns the names of the queues in which messages of a topology wait.
func DelaysOf(t schemas.Topology) Delays {
	return Delays{current: t.Name(".wait."), former: t.Name(".delay.")}
}

// Queue returns the queue in which every message waits for d, in whole milliseconds.
func (n Delays) Queue(d time.Duration) string { return numbered(n.current, d) }

// Former returns the delay queue of a former release for d.
func (n Delays) Former(d time.Duration) string { return numbered(n.former, d) }

func numbered(prefix string, d time.Duration) string {
	return prefix + strconv.FormatInt(d.Milliseconds(), 10)
}

// Of returns the time that messages wait in a delay queue, also of a former release; 0 for other
// queues.
func (n Delays) Of(queue string) time.Duration {
	for _, prefix := range []string{n.current, n.former} {
		if milliseconds, is := number(queue, prefix); is {
			return time.Duration(min(milliseconds, uint64(header.LongestDelay.Milliseconds()))) * time.Millisecond
		}
	}
	return 0
}

// Has reports whether a queue is a delay queue, of any delay.
func (n Delays) Has(queue string) bool {
	_, is := number(queue, n.current)
	return is
}

// HasFormer reports whether a queue is a delay queue of a former release.
func (n Delays) HasFormer(queue string) bool {
	_, is := number(queue, n.former)
	return is
}

// number returns the number of a name, if only that follows a prefix.
func number(name, prefix string) (value uint64, is bool) {
	digits, begins := strings.CutPrefix(name, prefix)
	value, err := strconv.ParseUint(digits, 10, 63)
	return value, begins && err == nil
}
