package broker

import (
	"fmt"
	"time"
)

// settings are what a queue's arguments say (https://www.rabbitmq.com/docs/queues#optional-arguments).
type settings struct {
	quorum        bool
	messageTTL    int64 // milliseconds, -1 for none
	expires       time.Duration
	hasDLX        bool
	dlx           string
	dlk           *string // nil: the message's own keys
	atLeastOnce   bool
	maxLength     int64 // -1 for none
	maxBytes      int64 // -1 for none
	overflow      string
	maxPriority   int
	singleActive  bool
	deliveryLimit int64 // -1 for none
}

// defaultDeliveryLimit is that of quorum queues since RabbitMQ 4.0.
const defaultDeliveryLimit = 20

func defaultSettings(quorum bool) settings {
	s := settings{quorum: quorum, messageTTL: -1, maxLength: -1, maxBytes: -1, deliveryLimit: -1, overflow: dropHead}
	if quorum {
		s.deliveryLimit = defaultDeliveryLimit
	}
	return s
}

// parseSettings reads a queue's arguments; where is how errors call the queue.
func parseSettings(args table, where string) (settings, *exception) {
	kind, err := queueType(args, where)
	if err != nil {
		return settings{}, err
	}
	s := defaultSettings(kind == "quorum")
	for name, f := range args.fields() {
		problem := s.set(name, f, args)
		switch {
		case problem == "":
		case problem == mistyped:
			return s, fail(preconditionFailed, "invalid type '%s' for arg '%s' in %s", f.typeName(), name, where)
		case problem == unfit:
			return s, fail(preconditionFailed, "invalid arg '%s' for %s of queue type rabbit_%s_queue", name, where, kind)
		default:
			return s, fail(preconditionFailed, "invalid arg '%s' for %s: %s", name, where, problem)
		}
	}
	// RabbitMQ falls back to at-most-once without a word, too.
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
		return "", fail(preconditionFailed, "invalid arg 'x-queue-type' for %s: {unacceptable_type,%s}", where, f.typeName())
	case kind == "classic" || kind == "quorum":
		return kind, nil
	}
	// Streams are among these.
	return "", fail(preconditionFailed, "invalid arg 'x-queue-type' for %s: \"unsupported queue type '%s'\"", where, kind)
}

const (
	unfit    = "unfit"    // marks an argument that the queue's type does not take
	mistyped = "mistyped" // marks one whose type is told in other words than usual
)

// set takes one argument; the result says what is wrong with it.
func (s *settings) set(name string, f field, args table) (problem string) {
	switch name {
	case "x-message-ttl":
		s.messageTTL, problem = milliseconds(f)
	case "x-expires":
		problem = s.setExpires(f)
	case "x-max-length":
		s.maxLength, problem = count(f)
	case "x-max-length-bytes":
		s.maxBytes, problem = count(f)
	case "x-max-priority":
		problem = s.setPriority(f)
	case "x-single-active-consumer":
		s.singleActive, problem = flag(f)
	case "x-delivery-limit":
		problem = s.setDeliveryLimit(f)
	case "x-overflow":
		problem = s.setOverflow(f)
	default:
		problem = s.setDeadLetter(name, f, args)
	}
	return problem
}

func (s *settings) setDeadLetter(name string, f field, args table) (problem string) {
	text, isText := f.text()
	switch name {
	case "x-dead-letter-exchange":
		if !isText {
			return mistyped
		}
		s.hasDLX, s.dlx = true, text
	case "x-dead-letter-routing-key":
		if _, there := args.lookup("x-dead-letter-exchange"); !there {
			return "routing_key_but_no_dlx_defined"
		}
		s.dlk = &text
	case "x-dead-letter-strategy":
		if !s.quorum {
			return unfit
		}
		if text != "at-least-once" && text != "at-most-once" {
			return "invalid_dlx_strategy"
		}
		s.atLeastOnce = text == "at-least-once"
	default:
		return ""
	}
	if !isText {
		return fmt.Sprintf("{unacceptable_type,%s}", f.typeName())
	}
	return ""
}

func (s *settings) setExpires(f field) (problem string) {
	ms, problem := milliseconds(f)
	if problem == "" && ms == 0 {
		return "{value_zero,0}"
	}
	s.expires = time.Duration(ms) * time.Millisecond
	return problem
}

func (s *settings) setPriority(f field) (problem string) {
	highest, problem := count(f)
	switch {
	case s.quorum:
		return unfit
	case problem == "" && highest > 255:
		return fmt.Sprintf("{max_value_exceeded,%d}", highest)
	}
	s.maxPriority = int(highest)
	return problem
}

// setDeliveryLimit takes a negative limit as none, as RabbitMQ 4 does.
func (s *settings) setDeliveryLimit(f field) (problem string) {
	if !s.quorum {
		return unfit
	}
	limit, isInteger := f.integer()
	if !isInteger {
		return wrongType(f)
	}
	s.deliveryLimit = max(limit, -1)
	return ""
}

func (s *settings) setOverflow(f field) (problem string) {
	how, isText := f.text()
	switch {
	case !isText:
		return fmt.Sprintf("{unacceptable_type,%s}", f.typeName())
	case how != dropHead && how != rejectPublish && how != rejectPublishDLX:
		return "invalid_overflow"
	}
	s.overflow = how
	return ""
}

func wrongType(f field) string { return fmt.Sprintf("\"expected integer, got %s\"", f.typeName()) }

func count(f field) (n int64, problem string) {
	n, isInteger := f.integer()
	switch {
	case !isInteger:
		return 0, wrongType(f)
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

func flag(f field) (value bool, problem string) {
	value, isBool := f.boolean()
	if !isBool {
		return false, fmt.Sprintf("{unacceptable_type,%s}", f.typeName())
	}
	return value, ""
}
