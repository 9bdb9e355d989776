// Package report parses the reports by which the consumers of queues, in any language,
// say what became of their messages: see docs/protocol.md.
package report

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
)

// Header is the header with the report, a table. A single header is replaced as a whole:
// nothing that the publisher of the message may have written remains in it.
const Header = "watership-report"

// Outcome is the outcome of an attempt.
type Outcome string

// The outcomes.
const (
	Handled     Outcome = "handled"     // done
	Retry       Outcome = "retry"       // an attempt that failed
	Poison      Outcome = "poison"      // no further attempt can succeed
	Unavailable Outcome = "unavailable" // the consumer cannot handle the message now, which is no attempt
)

// Report is the report of a consumer on a message.
type Report struct {
	Outcome    Outcome
	Error      string
	ErrorType  string
	ErrorGroup string
	Class      string
	Stack      string
	Delay      *time.Duration // before the next attempt; nil: as the policy says
	Progress   *string        // for the next attempt; nil: as before
	Attempts   int            // that the consumer made by itself, this one included; 0: one
	FailedAt   time.Time      // of the first of them; zero: now
	StartedAt  time.Time      // of the latest of them; zero: not known
	Duration   time.Duration  // of the latest of them, at least a nanosecond; 0: not known

	// Message is the message as its consumer got it, as far as the report can be read.
	Message schemas.Envelope
}

// The fields of a report.
const (
	fieldOutcome    = "outcome"
	fieldError      = "error"
	fieldErrorType  = "error-type"
	fieldErrorGroup = "error-group"
	fieldClass      = "class"
	fieldStack      = "stack"
	fieldDelay      = "delay"
	fieldProgress   = "progress"
	fieldAttempts   = "attempts"
	fieldFailedAt   = "failed-at"
	fieldStartedAt  = "started-at"
	fieldDuration   = "duration"
	fieldExchange   = "exchange"
	fieldRoutingKey = "routing-key"
	fieldExpiration = "expiration"
	fieldDeaths     = "x-death"
)

const (
	longestDelay = 24 * time.Hour // a longer delay is this one

	longestDuration = 7 * 24 * time.Hour // as of all times of work

	longestName  = 255 // bytes, of an exchange or routing key
	mostAttempts = 1_000_000
	latestTime   = 253402300799000 // ms since 1970: the end of the year 9999

	// longestExpiration is the longest time to live that RabbitMQ accepts.
	longestExpiration = 1<<32 - 1 // ms
)

// Parse parses the report of a message that arrived at the queue of reports. Its error
// names each field that is missing or wrong; the rest of the report is valid. Fields that
// it does not know have no effect.
func Parse(arrived schemas.Envelope) (Report, error) {
	told := Report{Message: arrived}
	told.Message.Exchange, told.Message.RoutingKey = "", arrived.RoutingKey
	value, present := arrived.Headers[Header]
	told.Message.Headers = maps.Clone(arrived.Headers)
	delete(told.Message.Headers, Header)
	table, isTable := value.(amqp.Table)
	switch {
	case !present:
		return told, fmt.Errorf("there is no header %s", Header)
	case !isTable:
		return told, fmt.Errorf("the header %s is no table", Header)
	}
	f := fields{table: table}
	told.Outcome = Outcome(f.text(fieldOutcome))
	if !slices.Contains([]Outcome{Handled, Retry, Poison, Unavailable}, told.Outcome) {
		f.wrong(fieldOutcome, "handled, retry, poison or unavailable")
	}
	told.Error, told.ErrorType, told.ErrorGroup = f.text(fieldError), f.text(fieldErrorType), f.text(fieldErrorGroup)
	told.Class, told.Stack = f.text(fieldClass), f.text(fieldStack)
	if delay, given := f.number(fieldDelay, math.MaxInt64, milliseconds); given {
		told.Delay = new(time.Duration)
		*told.Delay = time.Duration(min(delay, uint64(longestDelay.Milliseconds()))) * time.Millisecond
	}
	if _, given := table[fieldProgress]; given {
		progress := f.text(fieldProgress)
		told.Progress = &progress
	}
	if attempts, given := f.number(fieldAttempts, mostAttempts, "a whole number up to 1000000"); given {
		told.Attempts = int(attempts)
	}
	told.FailedAt = f.time(fieldFailedAt)
	measured := fields{table: table} // its errors are dropped, since a wrong time is no reason to doubt the outcome
	told.StartedAt = measured.time(fieldStartedAt)
	if took, given := measured.number(fieldDuration, uint64(longestDuration.Milliseconds()), milliseconds); given {
		told.Duration = max(time.Duration(took)*time.Millisecond, 1)
	}
	exchange, routingKey := f.name(fieldExchange), f.name(fieldRoutingKey)
	if expiration, given := f.number(fieldExpiration, longestExpiration, milliseconds); given {
		told.Message.Properties.Expiration = strconv.FormatUint(expiration, 10)
	}
	if deaths, given := table[fieldDeaths].([]any); given {
		told.Message.Headers["x-death"] = deaths
	} else if table[fieldDeaths] != nil {
		f.wrong(fieldDeaths, "the header as in the delivery")
	}
	if len(f.errs) == 0 {
		told.Message.Exchange, told.Message.RoutingKey = exchange, routingKey
	}
	return told, errors.Join(f.errs...)
}

// Publishing returns the message that gives the report: Parse is its inverse. The headers CC
// and BCC, and the properties user_id and expiration, are not part of it (docs/protocol.md).
func (r Report) Publishing() amqp.Publishing {
	e := r.Message
	table := amqp.Table{fieldOutcome: string(r.Outcome), fieldExchange: e.Exchange, fieldRoutingKey: e.RoutingKey}
	for name, text := range map[string]string{
		fieldError: r.Error, fieldErrorType: r.ErrorType, fieldErrorGroup: r.ErrorGroup, fieldClass: r.Class, fieldStack: r.Stack, fieldExpiration: e.Properties.Expiration,
	} {
		if text != "" {
			table[name] = text
		}
	}
	if r.Delay != nil {
		table[fieldDelay] = r.Delay.Milliseconds()
	}
	if r.Progress != nil {
		table[fieldProgress] = *r.Progress
	}
	if r.Attempts > 0 {
		table[fieldAttempts] = int64(r.Attempts)
	}
	if !r.FailedAt.IsZero() {
		table[fieldFailedAt] = r.FailedAt.UnixMilli()
	}
	if !r.StartedAt.IsZero() {
		table[fieldStartedAt] = r.StartedAt.UnixMilli()
	}
	if r.Duration > 0 {
		table[fieldDuration] = r.Duration.Milliseconds()
	}
	headers := maps.Clone(e.Headers)
	if headers == nil {
		headers = amqp.Table{}
	}
	if deaths, has := headers["x-death"]; has {
		table[fieldDeaths] = deaths
	}
	for _, name := range []string{"x-death", "CC", "BCC"} {
		delete(headers, name)
	}
	headers[Header] = table
	e.Headers, e.Properties.UserID, e.Properties.Expiration = headers, "", ""
	return e.Publishing()
}

// fields reads the fields of a report and collects their errors.
type fields struct {
	table amqp.Table
	errs  []error
}

func (f *fields) wrong(name, expected string) {
	value, present := f.table[name]
	if !present {
		f.errs = append(f.errs, fmt.Errorf("its %s is missing: expected %s", name, expected))
		return
	}
	text := fmt.Sprintf("%q", fmt.Sprint(value))
	if most := 64; len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	f.errs = append(f.errs, fmt.Errorf("its %s is %s: expected %s", name, text, expected))
}

// text returns a field that is text, "" if it is absent or null.
func (f *fields) text(name string) string {
	switch v := f.table[name].(type) {
	case nil:
	case string:
		return strings.ToValidUTF8(v, "?")
	case []byte: // as the clients of languages with one type for both publish text
		return strings.ToValidUTF8(string(v), "?")
	default:
		f.wrong(name, "text")
	}
	return ""
}

// name returns the name of an exchange or a routing key, byte by byte. It must be there:
// an empty one is the default exchange, or an empty routing key.
func (f *fields) name(name string) (text string) {
	switch v := f.table[name].(type) {
	case string:
		text = v
	case []byte:
		text = string(v)
	default:
		f.wrong(name, "text, as in the delivery")
		return ""
	}
	if len(text) > longestName {
		f.wrong(name, fmt.Sprintf("at most %d bytes", longestName))
		return ""
	}
	return text
}

const milliseconds = "whole milliseconds"

// number returns a field that is a whole number up to most, or text of one.
func (f *fields) number(name string, most uint64, expected string) (n uint64, given bool) {
	var text string
	switch v := f.table[name].(type) {
	case nil:
		return 0, false
	case string:
		text = v
	case []byte:
		text = string(v)
	case int, int8, int16, int32, int64, uint8, uint16, uint32:
		text = fmt.Sprint(v)
	case float64: // of a language with one type for all numbers
		text = strconv.FormatFloat(v, 'f', -1, 64)
	case float32:
		text = strconv.FormatFloat(float64(v), 'f', -1, 32)
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n > most {
		f.wrong(name, expected)
		return 0, false
	}
	return n, true
}

// time returns a field that is a time in milliseconds, zero if it is absent.
func (f *fields) time(name string) time.Time {
	at, given := f.number(name, latestTime, "whole milliseconds since 1970")
	if !given || at == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(at)).UTC()
}
