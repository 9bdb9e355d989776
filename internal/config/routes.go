package config

import (
	"net/http"
	"slices"
	"time"

	"github.com/watershipmq/watership/internal/template/requestheader"
	"github.com/watershipmq/watership/retry"
)

func readTap(l *loader, path string, n node) TapExchange {
	var tap TapExchange
	l.readFields(path, n,
		structureField{name: "name", read: scalar(boundedText(1, shortString), &tap.Name)},
		structureField{name: "type", read: scalar(oneOf("topic", "fanout", "direct", "headers"), &tap.Type)},
		structureField{name: "keys", read: scalars(boundedText(0, shortString), &tap.Keys)},
	)
	return tap
}

func readRoute(l *loader, path string, n node) Route {
	var route Route
	if handler, _ := n.field("handler"); handler.Kind == absent {
		l.readFields(path, n, routeWithoutHandler(&route)...)
		return route
	}
	l.readFields(path, n,
		structureField{name: "queue", read: scalar(queueName, &route.Queue)},
		structureField{name: "bind", read: structures(readBind, &route.Bind)},
		structureField{name: "handler", read: readHandler(&route.Handler)},
		structureField{name: "schema", read: scalar(boundedText(1, 4096), &route.Schema)},
		structureField{name: "arguments", read: readArguments(&route.Arguments)},
		structureField{name: "concurrency", fallback: "16", read: scalar(wholeNumber(1, 10_000), &route.Concurrency)},
		structureField{name: "fairness", read: readFairness(&route.Fairness)},
		structureField{name: "ordering", read: readOrdering(&route.Ordering)},
		structureField{name: "retry", read: scalar(boundedText(1, 200), &route.Retry)},
		structureField{name: "rules", read: structures(readRule, &route.Rules)},
		structureField{name: "breaker", read: readBreaker(&route.Breaker)},
		structureField{name: "timeout", read: scalar(duration(time.Millisecond, day), &route.Timeout)},
		structureField{name: "max_deliveries", fallback: "5", read: scalar(countOrOff(1000), &route.MaxDeliveries)},
		structureField{name: "park", fallback: "false", read: scalar(boolean, &route.Park)},
		structureField{name: "headers", read: refusesHandler},
	)
	return route
}

func readRetryHeaders(into *retry.Headers) read {
	return func(l *loader, path string, n node) {
		l.record(path, node{Origin: n.Origin})
		l.readFields(path, n,
			structureField{name: "limit", read: scalar(boundedText(1, shortString), &into.Limit)},
			structureField{name: "count", read: scalar(boundedText(1, shortString), &into.Count)},
			structureField{name: "delay", read: scalar(boundedText(1, shortString), &into.Delay)},
		)
	}
}

// routeWithoutHandler returns the fields of a route whose queue another program consumes.
func routeWithoutHandler(route *Route) []structureField {
	return []structureField{
		{name: "queue", read: scalar(queueName, &route.Queue)},
		{name: "retry", read: scalar(boundedText(1, 200), &route.Retry)},
		{name: "rules", read: structures(readRule, &route.Rules)},
		{name: "park", fallback: "false", read: scalar(boolean, &route.Park)},
		{name: "headers", read: readRetryHeaders(&route.Headers)},
		{name: "schema", read: scalar(boundedText(1, 4096), &route.Schema)},
		{name: "handler", read: readHandler(&route.Handler)},
		{name: "bind", read: needsHandler},
		{name: "arguments", read: needsHandler},
		{name: "concurrency", read: needsHandler},
		{name: "fairness", read: needsHandler},
		{name: "ordering", read: needsHandler},
		{name: "breaker", read: needsHandler},
		{name: "timeout", read: needsHandler},
		{name: "max_deliveries", read: needsHandler},
	}
}

func refusesHandler(l *loader, path string, n node) {
	l.fail(path, node{Origin: n.Origin}, "expected no handler beside it: the handler's response decides about the retries of a message")
}

func needsHandler(l *loader, path string, n node) {
	l.fail(path, node{Origin: n.Origin}, "expected a handler beside it: without one, another program consumes the queue, and the route only has queue, retry, rules, headers, schema and park")
}

// readBreaker reads the fields of a route's breaker; missing ones are set by complete.
func readBreaker(into *retry.Breaker) read {
	return func(l *loader, path string, n node) {
		l.record(path, node{Origin: n.Origin})
		l.readFields(path, n,
			structureField{name: "messages", read: scalar(countOrOff(1000), &into.Messages)},
			structureField{name: "within", read: scalar(duration(time.Millisecond, day), &into.Within)},
			structureField{name: "first", read: scalar(duration(time.Millisecond, day), &into.First)},
			structureField{name: "cap", read: scalar(duration(time.Millisecond, day), &into.Cap)},
			structureField{name: "max_waits", read: scalar(countOrOff(1_000_000), &into.MaxWaits)},
			structureField{name: "max_wait", read: scalar(duration(time.Millisecond, 365*day), &into.MaxWait)},
			structureField{name: "max_alike", read: scalar(countOrOff(1_000_000), &into.MaxAlike)},
		)
	}
}

func readOrdering(into *Ordering) read {
	return func(l *loader, path string, n node) {
		l.record(path, node{Origin: n.Origin})
		l.readFields(path, n,
			structureField{name: "class", read: scalar(boundedText(1, 100), &into.Class)},
			structureField{name: "key", read: template(messageKey, &into.Key)},
			structureField{name: "sequence", read: template(messageKey, &into.Sequence)},
			structureField{name: "within", fallback: "10m", read: scalar(duration(time.Second, day), &into.Within)},
		)
		if n.Kind == mapping && !(n.has("class") && n.has("key")) {
			l.fail(path, n, "expected the class of errors whose messages wait, and the key of messages, such as {headers.account}")
		}
	}
}

func readFairness(into *Fairness) read {
	return func(l *loader, path string, n node) {
		l.record(path, node{Origin: n.Origin})
		l.readFields(path, n,
			structureField{name: "key", read: template(messageKey, &into.Key)},
			structureField{name: "concurrency", read: scalar(wholeNumber(1, 10_000), &into.Concurrency)},
			structureField{name: "ordered", fallback: "false", read: scalar(boolean, &into.Ordered)},
			structureField{name: "rate", read: scalar(ratePerTime, &into.Rate)},
		)
		switch {
		case n.Kind != mapping:
		case !n.has("key"):
			l.fail(path, n, "expected the key of messages, such as {headers.merchant}")
		case into.Ordered && into.Concurrency > 1:
			l.failAt(path+".concurrency", "expected none beside ordered, which handles one message of a key at a time")
		}
	}
}

func readBind(l *loader, path string, n node) Bind {
	var bind Bind
	l.readFields(path, n,
		structureField{name: "exchange", read: scalar(boundedText(1, shortString), &bind.Exchange)},
		structureField{name: "key", read: scalar(boundedText(0, shortString), &bind.Key)},
	)
	return bind
}

func readHandler(into *Handler) read {
	return func(l *loader, path string, n node) {
		l.record(path, node{Origin: n.Origin})
		l.readFields(path, n, structureField{name: "http", read: readHTTPHandler(&into.HTTP)})
	}
}

func readHTTPHandler(into *HTTPHandler) read {
	return func(l *loader, path string, n node) {
		l.record(path, node{Origin: n.Origin})
		l.readFields(path, n,
			structureField{name: "url", read: template(handlerURL, &into.URL)},
			structureField{name: "method", read: template(method, &into.Method)},
			structureField{name: "set_headers", read: readSetHeaders(&into.SetHeaders)},
			structureField{name: "hosts", read: scalars(targetHost, &into.Hosts)},
			structureField{name: "private_networks", read: scalars(network, &into.PrivateNetworks)},
			structureField{name: "timeout", fallback: "30s", read: scalar(duration(time.Millisecond, day), &into.Timeout)},
			structureField{name: "answers", read: structures(readAnswer, &into.Answers)},
			structureField{name: "statuses", read: readStatuses(&into.Statuses)},
			structureField{name: "headers", read: scalars(requestHeader, &into.Headers)},
			structureField{name: "secret_file", read: scalar(boundedText(1, 4096), &into.SecretFile)},
			structureField{name: "keep_answers", fallback: "false", read: scalar(boolean, &into.KeepAnswers)},
			structureField{name: "max_retry_after", fallback: "1h", read: scalar(duration(time.Millisecond, day), &into.MaxRetryAfter)},
		)
	}
}

// template reads a text with fields, which YAML takes for a mapping where it begins with one.
func template[T any](parse func(string) (T, error), into *T) read {
	return func(l *loader, path string, n node) {
		if n.Kind == mapping {
			l.record(path, node{Origin: n.Origin})
			l.fail(path, node{Origin: n.Origin}, `expected text in quotes, as it begins with {`)
			return
		}
		scalar(parse, into)(l, path, n)
	}
}

// readSetHeaders reads the values of headers by name.
func readSetHeaders(into *map[string]string) read {
	each := readEach("expected values of headers by name", into, func(l *loader, at string, f field) {
		if err := requestheader.CheckSet(f.Name); err != nil {
			l.fail(redact(at), node{Origin: f.Value.Origin}, err.Error())
			return
		}
		name := http.CanonicalHeaderKey(f.Name)
		if _, twice := (*into)[name]; twice {
			l.fail(at, node{Origin: f.Value.Origin}, "expected each header once, in upper or lower case")
			return
		}
		var value string
		template(headerTemplate, &value)(l, at, f.Value)
		(*into)[name] = value
	})
	return func(l *loader, path string, n node) {
		if n.Kind != mapping { // it may be secret
			n = node{Origin: n.Origin}
		}
		each(l, path, n)
	}
}

// readStatuses reads the outcomes of responses by status: a meaning, or fields.
func readStatuses(into *map[string]HTTPOutcome) read {
	return readEach("expected meanings by status", into, func(l *loader, at string, f field) {
		if _, err := httpStatus(f.Name); err != nil {
			l.fail(redact(at), node{Origin: f.Value.Origin}, err.Error())
			return
		}
		var outcome HTTPOutcome
		if f.Value.Kind == mapping {
			l.record(at, node{Origin: f.Value.Origin})
			l.readFields(at, f.Value, outcome.fields()...)
			if len(f.Value.Fields) == 0 {
				l.fail(at, f.Value, "expected means or class")
			}
		} else {
			readMeaning(&outcome.Means)(l, at, f.Value)
		}
		(*into)[f.Name] = outcome
	})
}

// readEach reads a mapping whose names are chosen by the user.
func readEach[V any](expected string, into *map[string]V, each func(l *loader, at string, f field)) read {
	return func(l *loader, path string, n node) {
		l.record(path, node{Origin: n.Origin})
		if n.Kind != mapping {
			l.fail(path, n, expected)
			return
		}
		*into = map[string]V{}
		for _, f := range n.Fields {
			each(l, join(path, f.Name), f)
		}
	}
}

func (o *HTTPOutcome) fields() []structureField {
	return []structureField{
		{name: "means", read: readMeaning(&o.Means)},
		{name: "class", read: scalar(boundedText(1, 100), &o.Class)},
	}
}

func readMeaning(into *string) read {
	return scalar(oneOf("handled", "retry", "poison", "unavailable"), into)
}

// has reports whether a structure has one of the fields, even with a value that is wrong.
func (n node) has(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		value, _ := n.field(name)
		return value.Kind != absent
	})
}

func readAnswer(l *loader, path string, n node) HTTPAnswer {
	var a HTTPAnswer
	l.readFields(path, n, append(a.fields(),
		structureField{name: "status", read: scalar(httpStatus, &a.Status)},
		structureField{name: "header", read: scalar(responseHeader, &a.Header)},
		structureField{name: "field", read: scalar(jsonPointer, &a.Field)},
		structureField{name: "value", read: scalar(boundedText(1, 1000), &a.Value)},
	)...)
	switch {
	case n.Kind != mapping:
	case !n.has("status", "header", "field"):
		l.fail(path, n, "expected status, header or field")
	case n.has("header") && n.has("field"):
		l.fail(path, n, "expected header or field, not both")
	case n.has("value") && !n.has("header", "field"):
		l.fail(path, n, "expected a header or a field that has the value")
	case !n.has("means", "class"):
		l.fail(path, n, "expected means or class")
	}
	return a
}
