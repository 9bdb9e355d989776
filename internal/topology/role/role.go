// Package role names the parts of Watership of which each has its own queues, and the
// consumers by which the processes with a role are found.
package role

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/watershipmq/watership/schemas"
)

// Role is a part of Watership that any number of processes may have.
type Role string

// Roles.
const (
	Routes Role = "routes" // calls the handlers of the configured routes
	Retry  Role = "retry"  // retries the dead letters of other consumers, and acts on their reports
	Due    Role = "due"    // returns messages that have waited to their queues
	Poison Role = "poison" // records the messages that are given up, and parks them
	Index  Role = "index"  // writes events to the store

	Subscriptions Role = "subscriptions" // delivers events to queues and URLs
	Alerts        Role = "alerts"        // evaluates the rules of alerts, and notifies receivers
)

// All returns every role.
func All() []Role { return []Role{Routes, Retry, Due, Poison, Index, Subscriptions, Alerts} }

// Queues returns the queues that processes with the role consume; none for Routes, whose
// queues are in the configuration, and for Subscriptions and Alerts, which consume none.
func (r Role) Queues(t schemas.Topology) []string {
	switch r {
	case Retry:
		return []string{t.Retry(), t.Report()}
	case Due:
		return []string{t.Due()}
	case Poison:
		return []string{t.Poison()}
	case Index:
		return t.Indexed()
	}
	return nil
}

// Consumer describes a process that consumes a queue of a role.
type Consumer struct {
	Role     Role
	Process  string // HOST:PID
	Policies string // digest of the policies that it applies; "": it applies none
}

// NewConsumer returns the Consumer of this process.
func NewConsumer(r Role, policies string) Consumer {
	host, _ := os.Hostname() // "" if the system does not know it
	return Consumer{Role: r, Process: host + ":" + strconv.Itoa(os.Getpid()), Policies: policies}
}

const (
	tagBegin = "watership"
	tagParts = 4

	longestTag = 255 - 15 // bytes of a short string of AMQP, with room for the number of a consumer
)

// Tag returns the consumer tag that announces a process to those who list the consumers of
// a queue.
func (c Consumer) Tag() string {
	process := strings.ReplaceAll(c.Process, "/", "-")
	tag := strings.Join([]string{tagBegin, string(c.Role), process, c.Policies}, "/")
	if more := len(tag) - longestTag; more > 0 {
		c.Process = process[min(more, len(process)):]
		return c.Tag()
	}
	return tag
}

// ParseTag parses a consumer tag of Tag.
func ParseTag(tag string) (c Consumer, ok bool) {
	parts := strings.Split(tag, "/")
	if len(parts) != tagParts || parts[0] != tagBegin || !slices.Contains(All(), Role(parts[1])) {
		return c, false
	}
	policies, _, _ := strings.Cut(parts[3], "-") // a consumer with a new prefetch has a number in its tag
	return Consumer{Role: Role(parts[1]), Process: parts[2], Policies: policies}, true
}
