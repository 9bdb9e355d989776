package broker

import (
	"fmt"
	"slices"
	"time"
)

// settings are the parsed arguments of a queue
// (https://www.rabbitmq.com/docs/queues#optional-arguments).
type settings struct {
	quorum        bool
	messageTTL    int64 // milliseconds, -1 for none
	expires       time.Duration
	hasDLX        bool
	dlx           string
	dlk           *string // nil: the keys of the message
	atLeastOnce   bool
	maxLength     int64 // -1 for none
	maxBytes      int64 // -1 for none
	overflow      string
	maxPriority   int
	singleActive  bool
	deliveryLimit int64 // -1 for none
}

// defaultDeliveryLimit is the limit of quorum queues since RabbitMQ 4.0.
const defaultDeliveryLimit = 20

func defaultSettings(quorum bool, r Release) settings {
	s := settings{quorum: quorum, messageTTL: -1, maxLength: -1, maxBytes: -1, deliveryLimit: -1, overflow: dropHead}
	if quorum && !r.isBefore40() {
		s.deliveryLimit = defaultDeliveryLimit
	}
	return s
}

// argument is an argument of queue.declare that RabbitMQ knows. Unknown arguments are
// stored and ignored.
type argument struct {
	name            string
	classic, quorum bool // the queue types that support it; none: streams
	set             func(*settings, field) (problem string)
}

func queueArguments(r Release) []argument {
	all := []argument{
		{"x-message-ttl", true, true, (*settings).setTTL},
		{"x-expires", true, true, (*settings).setExpires},
		{"x-max-length", true, true, (*settings).setMaxLength},
		{"x-max-length-bytes", true, true, (*settings).setMaxBytes},
		{"x-overflow", true, true, (*settings).setOverflow},
		{"x-dead-letter-exchange", true, true, (*settings).setDeadLetterExchange},
		{"x-dead-letter-routing-key", true, true, (*settings).setDeadLetterKey},
		{"x-single-active-consumer", true, true, (*settings).setSingleActive},
		{"x-queue-type", true, true, ignoreArgument},
		{"x-queue-leader-locator", true, true, checkLeaderLocator},
		{"x-max-priority", true, false, (*settings).setPriority},
		{"x-queue-master-locator", true, false, ignoreArgument},
		{"x-delivery-limit", false, true, (*settings).setDeliveryLimit},
		{"x-dead-letter-strategy", false, true, (*settings).setStrategy},
		{"x-max-in-memory-length", false, true, checkCount},
		{"x-max-in-memory-bytes", false, true, checkCount},
		{"x-quorum-initial-group-size", false, true, checkCount},
		{"x-max-age", false, false, nil},
		{"x-stream-max-segment-size-bytes", false, false, nil},
		{"x-initial-cluster-size", false, false, nil},
	}
	if r.isBefore43() {
		return append(all,
			argument{"x-queue-mode", true, false, checkQueueMode},
			argument{"x-queue-version", true, false, checkQueueVersion(1, 2)},
		)
	}
	return append(all,
		argument{"x-queue-mode", true, false, ignoreArgument},
		argument{"x-queue-version", true, false, checkQueueVersion(2)},
		argument{"x-consumer-timeout", false, true, checkCount},
	)
}

func (a argument) fits(quorum bool) bool { return quorum && a.quorum || !quorum && a.classic }

func (s settings) kind() string {
	if s.quorum {
		return "quorum"
	}
	return "classic"
}

// parseSettings parses the arguments of a queue. where names the queue in errors.
func parseSettings(args table, where string, r Release) (settings, *exception) {
	kind, err := queueType(args, where)
	if err != nil {
		return settings{}, err
	}
	s := defaultSettings(kind == "quorum", r)
	for _, a := range queueArguments(r) {
		f, there := args.lookup(a.name)
		if !there {
			continue
		}
		if !a.fits(s.quorum) {
			return s, newException(preconditionFailed, "invalid arg '%s' for %s of queue type rabbit_%s_queue", a.name, where, kind)
		}
		switch problem := a.set(&s, f); problem {
		case "":
		case mistyped:
			return s, newException(preconditionFailed, "invalid type '%s' for arg '%s' in %s", f.typeName(), a.name, where)
		default:
			return s, newException(preconditionFailed, "invalid arg '%s' for %s: %s", a.name, where, problem)
		}
	}
	// RabbitMQ falls back to drop-head and at-most-once without an error, too.
	if s.quorum && s.overflow == rejectPublishDLX {
		s.overflow = dropHead
	}
	s.atLeastOnce = s.atLeastOnce && s.quorum && s.hasDLX && s.overflow == rejectPublish
	return s, nil
}

func queueType(args table, where string) (string, *exception) {
	f, there := args.lookup("x-queue-type")
	if !there {
		return "classic", nil
	}
	kind, isText := f.text()
	switch {
	case !isText:
		return "", newException(preconditionFailed, "invalid arg 'x-queue-type' for %s: %s", where, unacceptableType(f))
	case kind == "classic" || kind == "quorum":
		return kind, nil
	}
	// Also of streams.
	return "", newException(preconditionFailed, "invalid arg 'x-queue-type' for %s: \"unsupported queue type '%s'\"", where, kind)
}

// mistyped marks an argument of a wrong type that RabbitMQ reports in a text of its
// own.
const mistyped = "mistyped"

func (s *settings) setTTL(f field) (problem string) {
	s.messageTTL, problem = milliseconds(f)
	return problem
}

func (s *settings) setExpires(f field) (problem string) {
	ms, problem := milliseconds(f)
	if problem == "" && ms == 0 {
		return "{value_zero,0}"
	}
	s.expires = time.Duration(ms) * time.Millisecond
	return problem
}

func (s *settings) setMaxLength(f field) (problem string) {
	s.maxLength, problem = count(f)
	return problem
}

func (s *settings) setMaxBytes(f field) (problem string) {
	s.maxBytes, problem = count(f)
	return problem
}

func (s *settings) setOverflow(f field) (problem string) {
	return oneOf(f, &s.overflow, "invalid_overflow", dropHead, rejectPublish, rejectPublishDLX)
}

func (s *settings) setDeadLetterExchange(f field) (problem string) {
	if s.dlx, s.hasDLX = f.text(); !s.hasDLX {
		return mistyped
	}
	return ""
}

// setDeadLetterKey runs after setDeadLetterExchange.
func (s *settings) setDeadLetterKey(f field) (problem string) {
	if !s.hasDLX {
		return "routing_key_but_no_dlx_defined"
	}
	key, isText := f.text()
	if !isText {
		return unacceptableType(f)
	}
	s.dlk = &key
	return ""
}

func (s *settings) setStrategy(f field) (problem string) {
	var strategy string
	problem = oneOf(f, &strategy, "invalid_dlx_strategy", "at-most-once", "at-least-once")
	s.atLeastOnce = strategy == "at-least-once"
	return problem
}

func (s *settings) setSingleActive(f field) (problem string) {
	value, isBool := f.boolean()
	if !isBool {
		return unacceptableType(f)
	}
	s.singleActive = value
	return ""
}

func (s *settings) setPriority(f field) (problem string) {
	highest, problem := count(f)
	if problem == "" && highest > 255 {
		return fmt.Sprintf("{max_value_exceeded,%d}", highest)
	}
	s.maxPriority = int(highest)
	return problem
}

// setDeliveryLimit sets the delivery limit. A negative one means no limit, as in RabbitMQ 4.
func (s *settings) setDeliveryLimit(f field) (problem string) {
	limit, isInteger := f.integer()
	if !isInteger {
		return integerExpected(f)
	}
	s.deliveryLimit = max(limit, -1)
	return ""
}

// The functions below check arguments without an effect in this broker, such as the
// location of a leader.

func ignoreArgument(*settings, field) (problem string) { return "" }

func checkCount(_ *settings, f field) (problem string) {
	_, problem = count(f)
	return problem
}

func checkLeaderLocator(_ *settings, f field) (problem string) {
	return oneOf(f, new(string), "invalid_queue_locator_arg", "client-local", "balanced", "random", "least-leaders")
}

func checkQueueMode(_ *settings, f field) (problem string) {
	mode, _ := f.text()
	return oneOf(f, new(string), fmt.Sprintf("\"unsupported queue mode '%s'\"", mode), "default", "lazy")
}

func checkQueueVersion(supported ...int64) func(*settings, field) (problem string) {
	return func(_ *settings, f field) (problem string) {
		version, isInteger := f.integer()
		switch {
		case !isInteger:
			return integerExpected(f)
		case !slices.Contains(supported, version):
			return fmt.Sprintf("\"unsupported queue version '%d'\"", version)
		}
		return ""
	}
}

// oneOf sets value to a known text, and returns problemIfUnknown for other texts.
func oneOf(f field, value *string, problemIfUnknown string, known ...string) (problem string) {
	text, isText := f.text()
	switch {
	case !isText:
		return unacceptableType(f)
	case !slices.Contains(known, text):
		return problemIfUnknown
	}
	*value = text
	return ""
}

func unacceptableType(f field) string { return fmt.Sprintf("{unacceptable_type,%s}", f.typeName()) }

func integerExpected(f field) string {
	return fmt.Sprintf("\"expected integer, got %s\"", f.typeName())
}

func count(f field) (n int64, problem string) {
	n, isInteger := f.integer()
	switch {
	case !isInteger:
		return 0, integerExpected(f)
	case n < 0:
		return 0, fmt.Sprintf("{value_negative,%d}", n)
	}
	return n, ""
}

func milliseconds(f field) (ms int64, problem string) {
	if ms, problem = count(f); ms > maxExpiry {
		problem = fmt.Sprintf("{value_too_large,%d}", ms)
	}
	return ms, problem
}
