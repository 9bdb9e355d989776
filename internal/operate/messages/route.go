package messages

import (
	"fmt"
	"strings"

	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/problem"
)

// IsCopyHeader reports whether a header names further routing keys of a message.
func IsCopyHeader(name string) bool {
	return strings.EqualFold(name, "CC") || strings.EqualFold(name, "BCC")
}

// CheckRoute refuses an exchange that the caller may not publish to. The default exchange
// routes to the queue of the routing key.
func CheckRoute(caller access.Identity, exchange, key string) error {
	switch {
	case !caller.MayExchange(exchange):
		return problem.NotAllowed(caller, "exchange", fmt.Sprintf("%q", exchange))
	case exchange == "" && caller.Limited() && !caller.MayQueue(key):
		return problem.NotAllowed(caller, "queue", key)
	}
	return nil
}
