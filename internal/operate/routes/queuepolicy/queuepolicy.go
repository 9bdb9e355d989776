// Package queuepolicy gives the queue of another program Watership's dead-letter exchange,
// by a policy of RabbitMQ, and takes it away again.
package queuepolicy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/schemas"
)

// Management is RabbitMQ's management API.
type Management interface {
	Queue(ctx context.Context, vhost, name string) (rabbit.Queue, error)
	Exchange(ctx context.Context, vhost, name string) (rabbit.Exchange, error)
	Policies(ctx context.Context, vhost string) ([]rabbit.Policy, error)
	SavePolicy(ctx context.Context, vhost string, p rabbit.Policy) error
	DeletePolicy(ctx context.Context, vhost, name string) error
}

// Editor plans and makes changes of policies in one virtual host.
type Editor struct {
	Management Management
	VHost      string
	Topology   schemas.Topology

	// Wait is the pause between two looks whether a queue has its new policy.
	Wait time.Duration
}

// Change is a change of the policies of a queue that Apply makes.
type Change struct {
	Queue string `json:"queue"`

	// Save is the policy to create or replace, and Delete the name of the policy to
	// delete. Without either there is nothing to do.
	Save   *rabbit.Policy `json:"save,omitempty" doc:"Policy to create or replace"`
	Delete string         `json:"delete,omitempty" doc:"Name of the policy to delete"`

	// Merged is the policy that applies to the queue without this one. RabbitMQ applies one
	// policy to a queue, so Save has its keys as well. "": none.
	Merged string `json:"merged,omitempty" doc:"Name of the policy that applies to the queue without this one, and is repeated in it"`

	Notes []string `json:"notes" nullable:"false" doc:"What an operator should know"`
}

// RefusedError is the reason why a queue cannot have the policy.
type RefusedError struct{ Reason, Remedy string }

func (e *RefusedError) Error() string { return e.Reason + "\n" + e.Remedy }

func refusef(remedy, format string, args ...any) error {
	return &RefusedError{Reason: fmt.Sprintf(format, args...), Remedy: remedy}
}

const deadLetterExchange = "dead-letter-exchange"

func (e Editor) policyName(queue string) string { return Name(e.Topology, queue) }

// Name returns the name of the policy that Editor.Add gives a queue.
func Name(topology schemas.Topology, queue string) string {
	return topology.Name("-route-" + queue)
}

// Add returns the change that sends the dead letters of a queue to Watership. It changes
// nothing, and refuses a queue whose dead letters go elsewhere.
func (e Editor) Add(ctx context.Context, name string) (Change, error) {
	queue, err := e.findQueue(ctx, name)
	if err != nil {
		return Change{}, err
	}
	if _, err := e.Management.Exchange(ctx, e.VHost, e.Topology.Retry()); errors.Is(err, rabbit.ErrNotFound) {
		return Change{}, refusef("run watership setup", "the dead-letter exchange %s does not exist", e.Topology.Retry())
	} else if err != nil {
		return Change{}, err
	}
	own, base, err := e.policiesOf(ctx, queue)
	if err != nil {
		return Change{}, err
	}
	if target, has := queue.Arguments["x-"+deadLetterExchange]; has {
		return e.withArgument(name, target)
	}
	if target, has := base.Definition[deadLetterExchange]; has && target != e.Topology.Retry() {
		return Change{}, refusef(
			fmt.Sprintf("take %s out of policy %q, or leave out the queue by its pattern, and try again", deadLetterExchange, base.Name),
			"policy %q sends the dead letters of queue %s to exchange %v, which would get none any more", base.Name, name, target)
	} else if has {
		note := fmt.Sprintf("policy %q sends the dead letters of queue %s to Watership already", base.Name, name)
		return Change{Queue: name, Notes: []string{note}}, e.confirm(ctx, name, base)
	}
	c, err := e.change(queue, base)
	if err != nil {
		return Change{}, err
	}
	if own != nil && samePolicy(*own, *c.Save) {
		note := fmt.Sprintf("queue %s has policy %q already", name, own.Name)
		return Change{Queue: name, Merged: base.Name, Notes: []string{note}}, e.confirm(ctx, name, *own)
	}
	return c, nil
}

// findQueue returns a queue that may have the policy.
func (e Editor) findQueue(ctx context.Context, name string) (rabbit.Queue, error) {
	queue, err := e.Management.Queue(ctx, e.VHost, name)
	switch {
	case errors.Is(err, rabbit.ErrNotFound):
		return queue, refusef("start the program that declares it, and try again", "queue %s does not exist in virtual host %s", name, e.VHost)
	case err != nil:
		return queue, err
	case e.Topology.Owns(name):
		return queue, refusef("name the queue of another program", "queue %s is one of Watership's own", name)
	case queue.Exclusive:
		return queue, refusef("name a queue that outlives its connection", "queue %s is exclusive, so messages cannot return to it", name)
	case queue.Type == "stream":
		return queue, refusef("read it with a consumer that publishes what fails to a queue", "queue %s is a stream, which has no dead letters", name)
	}
	return queue, nil
}

// withArgument is the result for a queue that was declared with a dead-letter exchange: an
// argument overrides every policy (https://www.rabbitmq.com/docs/parameters#policies).
func (e Editor) withArgument(name string, target any) (Change, error) {
	if target == e.Topology.Retry() {
		return Change{Queue: name, Notes: []string{fmt.Sprintf("queue %s was declared with the dead-letter exchange %s", name, target)}}, nil
	}
	return Change{}, refusef("its owner has to declare it again, without the argument or with "+e.Topology.Retry()+
		"; or keep it, and take in what its dead-letter queue gets (watership adopt)",
		"queue %s was declared with the dead-letter exchange %q, which a policy cannot change", name, target)
}

// policiesOf returns the policy of Add, if the queue has it, and the policy that applies to
// the queue without it.
func (e Editor) policiesOf(ctx context.Context, queue rabbit.Queue) (own *rabbit.Policy, base rabbit.Policy, err error) {
	policies, err := e.Management.Policies(ctx, e.VHost)
	if err != nil {
		return nil, base, err
	}
	found := false
	for i, p := range policies {
		if p.Name == e.policyName(queue.Name) {
			own = &policies[i]
			continue
		}
		applies, err := p.AppliesTo(queue.Name, queue.Type)
		switch queue.Policy {
		case p.Name: // as RabbitMQ says, perhaps some seconds late
			applies = true
		case "", e.policyName(queue.Name): // not known yet, or none; or the one that hides the others
			if err != nil {
				return nil, base, refusef("give the queue its policy by hand", "the pattern %q of policy %q cannot be read, so it is not known whether it is for queue %s: %v",
					p.Pattern, p.Name, queue.Name, err)
			}
		}
		if applies && (!found || p.Priority > base.Priority || p.Name == queue.Policy && p.Priority == base.Priority) {
			base, found = p, true
		}
	}
	return own, base, nil
}

// change returns the policy with the keys of the one that applies now.
func (e Editor) change(queue rabbit.Queue, base rabbit.Policy) (Change, error) {
	c := Change{Queue: queue.Name, Merged: base.Name, Notes: []string{}}
	definition := maps.Clone(base.Definition)
	if definition == nil {
		definition = map[string]any{}
	}
	if err := checkOverflow(queue, base); err != nil {
		return Change{}, err
	}
	c.Notes = append(c.Notes, dropped(queue, definition)...)
	if note := SetDeadLetters(queue, definition, e.Topology.Retry()); note != "" {
		c.Notes = append(c.Notes, note)
	}
	priority := 0
	if base.Name != "" {
		priority = base.Priority + 1
		c.Notes = append(c.Notes, fmt.Sprintf("RabbitMQ applies one policy to a queue, so this one repeats %q: add the queue again after a change of it", base.Name))
	}
	c.Save = &rabbit.Policy{
		Name: e.policyName(queue.Name), Pattern: "^" + regexp.QuoteMeta(queue.Name) + "$", ApplyTo: "queues", Priority: priority, Definition: definition,
	}
	return c, nil
}

// setting returns the value of a key for a queue with a policy. An argument overrides the
// policy; an operator policy adds limits.
func setting(queue rabbit.Queue, definition map[string]any, key string) (value any, has bool) {
	if value, has = queue.Arguments["x-"+key]; has {
		return value, true
	}
	if value, has = definition[key]; !has && queue.OperatorPolicy != "" {
		value, has = queue.Effective[key]
	}
	return value, has
}

// overflowOf returns the overflow of a queue with a policy.
func overflowOf(queue rabbit.Queue, definition map[string]any) string {
	const key = "overflow"
	value, has := definition[key]
	if !has && queue.OperatorPolicy != "" {
		value = queue.Effective[key]
	}
	queue.Effective = map[string]any{key: value}
	return queue.Overflow()
}

// lengthLimits returns the keys that limit the length of a queue.
func lengthLimits(queue rabbit.Queue, definition map[string]any) []string {
	return slices.DeleteFunc([]string{"max-length", "max-length-bytes"}, func(key string) bool {
		_, has := setting(queue, definition, key)
		return !has
	})
}

// checkOverflow refuses a queue that dead-letters the messages which it rejects: their
// publisher sends them again, and a replay of the failure would be a second copy.
func checkOverflow(queue rabbit.Queue, base rabbit.Policy) error {
	const overflow, twice = "overflow", "reject-publish-dlx"
	if overflowOf(queue, base.Definition) != twice || len(lengthLimits(queue, base.Definition)) == 0 {
		return nil
	}
	remedy := "its owner has to declare it again, with overflow reject-publish"
	if _, declared := queue.Arguments["x-"+overflow]; !declared {
		remedy = fmt.Sprintf("change overflow to reject-publish in policy %q, which is the same without a dead-letter exchange, and try again",
			cmp.Or(base.Name, queue.OperatorPolicy))
	}
	return refusef(remedy, "queue %s has overflow %s: when it is full, its publisher would get a nack and the message would be a failure as well, "+
		"so that it arrives twice when both send it again", queue.Name, twice)
}

// dropped has a note for each setting that drops messages of a queue without a dead-letter
// exchange (https://www.rabbitmq.com/docs/dlx#overview).
func dropped(queue rabbit.Queue, definition map[string]any) []string {
	var notes []string
	if _, has := setting(queue, definition, "message-ttl"); has {
		notes = append(notes, "messages that expire by message-ttl were dropped, and become failures from now on")
	}
	if overflowOf(queue, definition) != "drop-head" {
		return notes
	}
	for _, key := range lengthLimits(queue, definition) {
		notes = append(notes, fmt.Sprintf("messages that the queue drops by %s when it is full become failures from now on", key))
	}
	return notes
}

// SetDeadLetters adds a dead-letter exchange to the definition of a policy for a queue, and
// dead-lettering at least once to a quorum queue where that changes nothing else: it needs
// overflow reject-publish, which only matters for a queue with a limit
// (https://www.rabbitmq.com/docs/quorum-queues#activating-at-least-once-dead-lettering).
func SetDeadLetters(queue rabbit.Queue, definition map[string]any, exchange string) (note string) {
	definition[deadLetterExchange] = exchange
	if queue.Type != "quorum" {
		return ""
	}
	for _, key := range []string{"max-length", "max-length-bytes", "overflow", "dead-letter-strategy"} {
		if value, has := setting(queue, definition, key); has {
			return fmt.Sprintf("the queue has %s %s, so its dead letters move at most once: a crash of RabbitMQ can lose one", key, rabbit.SettingText(value))
		}
	}
	definition["dead-letter-strategy"], definition["overflow"] = "at-least-once", "reject-publish"
	return "dead letters move at least once; overflow reject-publish has no effect, since the queue has no limit"
}

func samePolicy(a, b rabbit.Policy) bool {
	return a.Name == b.Name && a.Pattern == b.Pattern && a.Priority == b.Priority && fmt.Sprint(a.Definition) == fmt.Sprint(b.Definition)
}

// Remove returns the change that undoes Add.
func (e Editor) Remove(ctx context.Context, name string) (Change, error) {
	policies, err := e.Management.Policies(ctx, e.VHost)
	if err != nil {
		return Change{}, err
	}
	if !slices.ContainsFunc(policies, func(p rabbit.Policy) bool { return p.Name == e.policyName(name) }) {
		return Change{}, refusef("list policies with rabbitmqctl list_policies", "there is no policy %q", e.policyName(name))
	}
	c := Change{Queue: name, Delete: e.policyName(name), Notes: []string{"messages that wait for their next attempt return to the queue as before"}}
	queue, err := e.Management.Queue(ctx, e.VHost, name)
	if errors.Is(err, rabbit.ErrNotFound) {
		return c, nil
	}
	if err != nil {
		return Change{}, err
	}
	_, base, err := e.policiesOf(ctx, queue)
	var unreadable *RefusedError
	if err != nil && !errors.As(err, &unreadable) {
		return Change{}, err
	}
	c.Merged = base.Name
	return c, nil
}

// applyTimeout is how long RabbitMQ may take to give a queue its policy.
const applyTimeout = 15 * time.Second

// Apply makes a change and returns when RabbitMQ has applied it to the queue.
func (e Editor) Apply(ctx context.Context, c Change) error {
	switch {
	case c.Save != nil:
		if err := e.Management.SavePolicy(ctx, e.VHost, *c.Save); err != nil {
			return fmt.Errorf("saving policy %q: %w", c.Save.Name, err)
		}
	case c.Delete != "":
		if err := e.Management.DeletePolicy(ctx, e.VHost, c.Delete); err != nil {
			return fmt.Errorf("deleting policy %q: %w", c.Delete, err)
		}
	default:
		return nil
	}
	return e.awaitQueue(ctx, c.Queue, c.isApplied)
}

var errNotApplied = errors.New("RabbitMQ has not applied the policy to the queue yet: look again later")

// confirm returns when RabbitMQ says that a queue has the dead-letter exchange of a policy, by it or
// by another one. It refuses a policy that RabbitMQ does not apply, since dead letters would be lost.
func (e Editor) confirm(ctx context.Context, queue string, p rabbit.Policy) error {
	err := e.awaitQueue(ctx, queue, func(q rabbit.Queue) bool {
		exchange, _ := q.DeadLetterExchange()
		return exchange == e.Topology.Retry()
	})
	if errors.Is(err, errNotApplied) {
		return refusef(fmt.Sprintf("take out of policy %q what queues of this type do not support, or compare its priority with other policies, and try again", p.Name),
			"policy %q is for queue %s, but RabbitMQ does not apply it, so rejected messages are lost", p.Name, queue)
	}
	return err
}

// awaitQueue returns when a queue is as it should be, or is gone.
func (e Editor) awaitQueue(ctx context.Context, name string, is func(rabbit.Queue) bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, applyTimeout, errNotApplied)
	defer cancel()
	for {
		queue, err := e.Management.Queue(ctx, e.VHost, name)
		if errors.Is(err, rabbit.ErrNotFound) || err == nil && is(queue) {
			return nil
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		if err := backoff.Sleep(ctx, cmp.Or(e.Wait, 200*time.Millisecond)); err != nil {
			return err
		}
	}
}

func (c Change) isApplied(queue rabbit.Queue) bool {
	if c.Save == nil {
		return queue.Policy != c.Delete
	}
	if queue.Policy != c.Save.Name {
		return false
	}
	for key, value := range c.Save.Definition {
		effective, has := queue.Effective[key]
		if isLimit := queue.OperatorPolicy != ""; !has || !isLimit && fmt.Sprint(effective) != fmt.Sprint(value) {
			return false // an operator policy may lower a limit
		}
	}
	return true
}

// Text describes a change in lines.
func (c Change) Text() string {
	var lines []string
	switch {
	case c.Save != nil:
		lines = append(lines, fmt.Sprintf("policy %q for queue %s, with priority %d:", c.Save.Name, c.Queue, c.Save.Priority))
		for _, key := range slices.Sorted(maps.Keys(c.Save.Definition)) {
			lines = append(lines, fmt.Sprintf("  %s: %s", key, rabbit.SettingText(c.Save.Definition[key])))
		}
	case c.Delete != "":
		lines = append(lines, fmt.Sprintf("delete policy %q of queue %s", c.Delete, c.Queue))
		if c.Merged != "" {
			lines = append(lines, fmt.Sprintf("then policy %q applies again", c.Merged))
		}
	}
	return strings.Join(append(lines, c.Notes...), "\n")
}
