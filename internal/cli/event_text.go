package cli

import (
	"fmt"
	"time"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/schemas"
)

func exchangeName(exchange string) string {
	if exchange == "" {
		return "(default)"
	}
	return terminal.Cell(exchange, 60)
}

// exchangeOf returns the exchange of a message, "" for an event of no message.
func exchangeOf(e schemas.Event) string {
	if e.Envelope.Exchange == "" && e.RecordedAction().OfNoMessage() {
		return ""
	}
	return exchangeName(e.Envelope.Exchange)
}

func attemptText(e schemas.Event) string {
	if e.Attempt == 0 {
		return ""
	}
	return fmt.Sprint(e.Attempt)
}

// shortDuration rounds a duration to about three digits.
func shortDuration(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(100 * time.Microsecond).String()
	case d < time.Minute:
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
