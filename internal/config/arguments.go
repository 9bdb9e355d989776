package config

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	queueType          = "x-queue-type"
	deadLetterExchange = "x-dead-letter-exchange"
	deadLetterKey      = "x-dead-letter-routing-key"
)

// readArguments reads the arguments of a queue, of which RabbitMQ distinguishes the types of values.
func readArguments(into *map[string]any) read {
	return readEach("expected values by the names of arguments, such as {x-max-priority: 5}", into, func(l *loader, at string, f field) {
		if !strings.HasPrefix(f.Name, "x-") || f.Value.Kind != text {
			l.fail(at, node{Origin: f.Value.Origin}, "expected the name of an argument, such as x-max-priority, and its value")
			return
		}
		if f.Name == queueType && f.Value.Text == "stream" {
			l.fail(at, f.Value, "expected quorum or classic: a route would skip the messages of a stream that are published while it does not run")
			return
		}
		var value any
		scalar(argumentParser(f.Name), &value)(l, at, f.Value)
		(*into)[f.Name] = value
	})
}

// argumentParser returns the parser for an argument. It refuses the values with which no release of
// RabbitMQ declares a queue.
func argumentParser(name string) func(string) (any, error) {
	const longest = 10 * 365 * 24 * time.Hour / time.Millisecond // check_expiry of RabbitMQ
	switch name {
	case queueType:
		return parsed(oneOf("quorum", "classic"))
	case deadLetterExchange, deadLetterKey:
		return parsed(boundedText(0, shortString))
	case "x-overflow":
		return parsed(oneOf("drop-head", "reject-publish", "reject-publish-dlx"))
	case "x-dead-letter-strategy":
		return parsed(oneOf("at-most-once", "at-least-once"))
	case "x-single-active-consumer":
		return parsed(boolean)
	case "x-max-priority":
		return parsed(longNumber(0, math.MaxUint8))
	case "x-message-ttl":
		return parsed(longNumber(0, int64(longest)))
	case "x-expires":
		return parsed(longNumber(1, int64(longest)))
	case "x-max-length", "x-max-length-bytes":
		return parsed(longNumber(0, math.MaxInt64))
	}
	return anyArgument
}

// parsed returns a parser whose value may have any type.
func parsed[T any](parse func(string) (T, error)) func(string) (any, error) {
	return func(s string) (any, error) { return parse(s) }
}

// longNumber is wholeNumber with a value of 64 bits: RabbitMQ takes an int for one of 32.
func longNumber(low, high int64) func(string) (int64, error) {
	return func(s string) (int64, error) {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < low || n > high {
			return 0, fmt.Errorf("expected a whole number from %d to %d", low, high)
		}
		return n, nil
	}
}

// anyArgument parses a value of an unknown argument: true and false are booleans, whole numbers are
// numbers, everything else is text.
func anyArgument(s string) (any, error) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n, nil
	}
	if b, err := boolean(s); err == nil {
		return b, nil
	}
	return s, nil
}

// typeWith returns the only type of queues that has an argument; "" if each may have it.
func typeWith(name string) string {
	switch name {
	case "x-max-priority", "x-queue-mode", "x-queue-version", "x-queue-master-locator":
		return "classic"
	case "x-delivery-limit", "x-dead-letter-strategy", "x-quorum-initial-group-size", "x-max-in-memory-length", "x-max-in-memory-bytes":
		return "quorum"
	case "x-max-age", "x-stream-max-segment-size-bytes", "x-initial-cluster-size":
		return "stream"
	}
	return ""
}

// checkArguments refuses arguments with which RabbitMQ declares no queue. Without x-queue-type the
// queue may exist with another type than new ones have, and then it is declared with no arguments.
func (k checker) checkArguments(path string, arguments map[string]any) {
	if k.failed[join(path, queueType)] {
		return
	}
	kind, _ := arguments[queueType].(string)
	for _, name := range slices.Sorted(maps.Keys(arguments)) { // the first that only one type has decides for the others
		if kind == "" && typeWith(name) != "stream" {
			kind = typeWith(name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(arguments)) {
		at, needed := join(path, name), typeWith(name)
		k.rejectIf(at, needed == "stream", "none, as only streams have it")
		k.rejectIf(at, kind != "" && needed != "" && needed != "stream" && needed != kind, "a queue of type "+needed+", by "+queueType+" beside it")
	}
	_, hasKey := arguments[deadLetterKey]
	_, hasExchange := arguments[deadLetterExchange]
	k.rejectIf(join(path, deadLetterKey), hasKey && !hasExchange, deadLetterExchange+" beside it")
}
