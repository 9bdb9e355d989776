package adoptions

import (
	"slices"
	"strconv"
	"strings"

	"github.com/watershipmq/watership/schemas"
)

// Headers of Spring AMQP's RepublishMessageRecoverer
// (https://docs.spring.io/spring-amqp/reference/amqp/resilience-recovering-from-errors-and-broker-failures.html)
// and of Spring Cloud Stream's republishToDlq.
const (
	springMessage    = "x-exception-message"
	springStack      = "x-exception-stacktrace"
	springExchange   = "x-original-exchange"
	springRoutingKey = "x-original-routingKey"
)

// readSpring reads a failure of Spring, which records no queue: Spring Cloud Stream's dead
// letter queues have its name.
func readSpring(arrived schemas.Envelope, errorQueue string) (Failure, error) {
	h := headers(arrived.Headers)
	// An exception without a message has a null, and stack traces are an option.
	names := []string{springMessage, springStack, springExchange, springRoutingKey}
	if !slices.ContainsFunc(names, h.isTextOrNull) {
		return Failure{}, missing(h, "Spring", names...)
	}
	text, stack := h.text(springMessage), h.text(springStack)
	f := Failure{
		Message: withoutHeaders(arrived, func(string) bool { return false }), // they begin with "x-"
		Queue:   queueBefore(errorQueue, ".dlq", ".DLQ", "-dlq", ".error"),
		Error:   text, ErrorType: javaType(text, stack), Stack: stack,
	}
	for _, name := range names {
		delete(f.Message.Headers, name)
	}
	f.Message.Exchange, f.Message.RoutingKey = h.text(springExchange), h.text(springRoutingKey)
	f.Queue += springPartition(f.Queue, f.Message)
	return f, nil
}

// springPartition returns the ending of a queue of one partition of Spring Cloud Stream, "" for
// others. All partitions of a consumer group have one dead letter queue.
func springPartition(queue string, origin schemas.Envelope) string {
	destination := origin.Exchange
	number, partitioned := strings.CutPrefix(origin.RoutingKey, destination+"-")
	if _, err := strconv.ParseUint(number, 10, 31); err != nil || !partitioned || !strings.HasPrefix(queue, destination+".") {
		return ""
	}
	return "-" + number
}

// javaType returns the class of the exception with a message, by the stack trace
// (java.lang.Throwable.printStackTrace): the one whose line has the message, or else the
// first cause.
func javaType(message, stack string) string {
	first, _, _ := strings.Cut(message, "\n")
	var types []string
	for line := range strings.Lines(stack) {
		line = strings.TrimRight(line, "\r\n")
		text, cause := strings.CutPrefix(line, "Caused by: ")
		if !cause && len(types) > 0 {
			continue
		}
		name, rest, _ := strings.Cut(text, ": ")
		if name == "" || strings.ContainsAny(name, " \t") {
			continue
		}
		if first != "" && strings.HasPrefix(rest, first) {
			return name
		}
		types = append(types, name)
	}
	switch len(types) {
	case 0:
		return ""
	case 1:
		return types[0]
	}
	return types[1]
}
