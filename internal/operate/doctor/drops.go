package doctor

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/watershipmq/watership/internal/operate/routes/queuepolicy"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/render/wording"
)

// dropSettings are the settings by which a queue drops messages before they are handled.
type dropSettings struct {
	byPolicy   []string // of a policy or an operator policy
	byArgument []string // which the queue was declared with
}

// dropsOf returns the settings by which a queue drops messages. With a dead-letter exchange only its
// own expiry does, which deletes it with its messages.
func dropsOf(queue rabbit.Queue) (drops dropSettings) {
	keys := []string{"expires"}
	if !hasDeadLetters(queue) {
		keys = append(keys, "message-ttl")
		if queue.Overflow() == "drop-head" { // else their publishers still have the messages
			keys = append(keys, "max-length", "max-length-bytes")
		}
	}
	for _, key := range keys {
		byPolicy, has := integer(queue.Effective[key])
		declared, hasToo := integer(queue.Arguments["x-"+key])
		switch {
		case has && byPolicy < unlimited && (!hasToo || byPolicy < declared): // the lower one applies
			drops.byPolicy = append(drops.byPolicy, key+" "+rabbit.SettingText(queue.Effective[key]))
		case hasToo && declared < unlimited:
			drops.byArgument = append(drops.byArgument, key+" "+rabbit.SettingText(queue.Arguments["x-"+key]))
		}
	}
	return drops
}

// dropCheck compares the settings of a queue of a route with what may be lost.
type dropCheck struct {
	topologyChecks
	queue rabbit.Queue
}

// ofMessages looks for settings by which the queue drops messages. The owner of the queue chose its
// arguments; a policy may be for other queues.
func (t dropCheck) ofMessages() {
	queue, drops := t.queue, dropsOf(t.queue)
	if len(drops.byPolicy) > 0 {
		remedy := t.deadLetterPolicy(queue)
		if queue.OperatorPolicy != "" {
			remedy = fmt.Sprintf("narrow the pattern of operator policy %q so that it leaves out the queue; and if policies limit the queue still: %s", queue.OperatorPolicy, remedy)
		}
		t.report(QueueDropsByPolicy, Error, fmt.Sprintf("queue %s drops messages by %s of %s", queue.Name, strings.Join(drops.byPolicy, ", "), policiesOf(queue)), remedy)
	}
	if len(drops.byArgument) > 0 {
		t.report(QueueDropsByArgument, Warning, fmt.Sprintf("queue %s drops messages by %s, with which it was declared", queue.Name, strings.Join(drops.byArgument, ", ")),
			"if none may be lost, declare it without, since a queue's arguments never change: let it run empty and delete it first")
	}
}

// ofParkedCopies looks for a policy by which the queue drops copies of messages that a route has given up.
func (t dropCheck) ofParkedCopies() {
	queue := t.queue
	if drops := dropsOf(queue); len(drops.byPolicy) > 0 {
		t.report(ParkedCopiesDropped, Warning, fmt.Sprintf("queue %s drops parked copies by %s of %s", queue.Name, strings.Join(drops.byPolicy, ", "), policiesOf(queue)),
			"leave the queue out by the pattern of "+policiesOf(queue))
	}
}

// deadLetterPolicy returns the command for a policy that applies to the queue of a route alone, and
// limits nothing. It dead-letters at least once where `routes add` would.
func (b *broker) deadLetterPolicy(queue rabbit.Queue) string {
	definition := map[string]any{}
	queuepolicy.SetDeadLetters(queue, definition, b.Topology.Retry())
	text, _ := json.Marshal(definition) // of texts alone
	return fmt.Sprintf(`rabbitmqctl set_policy --vhost %s --priority %d --apply-to queues %s %s %s`,
		wording.Quoted(b.VHost), b.policyPriority(queue.Policy)+1, wording.Quoted(queue.Name+"-dead-letters"),
		wording.Quoted("^"+regexp.QuoteMeta(queue.Name)+"$"), wording.Quoted(string(text)))
}
