package adopt

import (
	"cmp"
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
	h := header(arrived.Headers)
	text, stack := h.text(springMessage), h.text(springStack)
	if text == "" && stack == "" {
		return Failure{}, missing(h, "Spring", springMessage, springStack)
	}
	f := Failure{
		Message: withoutHeaders(arrived, func(string) bool { return false }), // they begin with "x-"
		Queue:   queueBefore(errorQueue, ".dlq", ".DLQ", "-dlq", ".error"),
		Error:   text, ErrorType: javaType(text, stack), Stack: stack,
	}
	for _, name := range []string{springMessage, springStack, springExchange, springRoutingKey} {
		delete(f.Message.Headers, name)
	}
	f.Message.Exchange, f.Message.RoutingKey = h.text(springExchange), h.text(springRoutingKey)
	if f.Error == "" {
		f.Error = cmp.Or(f.ErrorType, "no message")
	}
	return f, nil
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
