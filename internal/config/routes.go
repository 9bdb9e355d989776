package config

import (
	"time"

	"github.com/watershipmq/watership/retry"
)

func readTap(l *loader, path string, n node) TapExchange {
	var tap TapExchange
	l.parts(path, n,
		part{name: "name", read: value(name(1, shortString), &tap.Name)},
		part{name: "type", read: value(oneOf("topic", "fanout", "direct", "headers"), &tap.Type)},
		part{name: "keys", read: list(name(0, shortString), &tap.Keys)},
	)
	return tap
}

func readRoute(l *loader, path string, n node) Route {
	var route Route
	l.parts(path, n,
		part{name: "queue", read: value(queueName, &route.Queue)},
		part{name: "bind", read: each(readBind, &route.Bind)},
		part{name: "handler", read: readHandler(&route.Handler)},
		part{name: "concurrency", fallback: "16", read: value(wholeNumber(1, 10_000), &route.Concurrency)},
		part{name: "retry", read: value(name(1, 200), &route.Retry)},
		part{name: "breaker", read: readBreaker(&route.Breaker)},
		part{name: "timeout", read: value(duration(time.Millisecond, day), &route.Timeout)},
		part{name: "park", fallback: "false", read: value(boolean, &route.Park)},
	)
	return route
}

// readBreaker reads the fields of a route's breaker; missing ones are set by complete.
func readBreaker(into *retry.Breaker) read {
	return func(l *loader, path string, n node) {
		l.record(path, node{Origin: n.Origin})
		l.parts(path, n,
			part{name: "messages", read: value(countOrNone(1000), &into.Messages)},
			part{name: "within", read: value(duration(time.Millisecond, day), &into.Within)},
			part{name: "first", read: value(duration(time.Millisecond, day), &into.First)},
			part{name: "cap", read: value(duration(time.Millisecond, day), &into.Cap)},
			part{name: "max_waits", read: value(countOrNone(1_000_000), &into.MaxWaits)},
			part{name: "max_wait", read: value(duration(time.Millisecond, 365*day), &into.MaxWait)},
			part{name: "max_alike", read: value(countOrNone(1_000_000), &into.MaxAlike)},
		)
	}
}

func readBind(l *loader, path string, n node) Bind {
	var bind Bind
	l.parts(path, n,
		part{name: "exchange", read: value(name(1, shortString), &bind.Exchange)},
		part{name: "key", read: value(name(0, shortString), &bind.Key)},
	)
	return bind
}

func readHandler(into *Handler) read {
	return func(l *loader, path string, n node) {
		l.record(path, node{Origin: n.Origin})
		l.parts(path, n, part{name: "http", read: readHTTPHandler(&into.HTTP)})
	}
}

func readHTTPHandler(into *HTTPHandler) read {
	return func(l *loader, path string, n node) {
		l.record(path, node{Origin: n.Origin})
		l.parts(path, n,
			part{name: "url", read: value(address("http", "https"), &into.URL)},
			part{name: "timeout", fallback: "30s", read: value(duration(time.Millisecond, day), &into.Timeout)},
			part{name: "statuses", read: readStatuses(&into.Statuses)},
			part{name: "headers", read: list(requestHeader, &into.Headers)},
			part{name: "max_retry_after", fallback: "1h", read: value(duration(time.Millisecond, day), &into.MaxRetryAfter)},
		)
	}
}

// readStatuses reads the meanings of responses by status.
func readStatuses(into *map[string]string) read {
	return func(l *loader, path string, n node) {
		l.record(path, node{Origin: n.Origin})
		if n.Form != mapping {
			l.fail(path, n, "expected meanings by status")
			return
		}
		*into = map[string]string{}
		for _, f := range n.Fields {
			at := join(path, f.Name)
			if _, err := httpStatus(f.Name); err != nil {
				l.fail(redact(at), node{Origin: f.Value.Origin}, err.Error())
				continue
			}
			var meaning string
			value(oneOf("handled", "retry", "poison", "unavailable"), &meaning)(l, at, f.Value)
			(*into)[f.Name] = meaning
		}
	}
}
