package queuepolicy_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/operate/routes/queuepolicy"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/schemas"
)

type rig struct {
	rabbittest.Broker
	queuepolicy.Editor
	management *rabbit.Management
}

// each runs a test on every broker, with an exchange for dead letters.
func each(t *testing.T, test func(t *testing.T, r rig)) {
	t.Parallel() // most of it is waiting: RabbitMQ tells the policy of a queue every 5 s
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		t.Parallel()
		b = b.VHost(t)
		management, err := rabbit.NewManagement(b.ManagementURL, nil)
		if err != nil {
			t.Fatal(err)
		}
		r := rig{b, queuepolicy.Editor{Management: management, VHost: b.VHostName(t), Topology: schemas.Topology{Prefix: b.Queue(t, nil) + "x"}, Wait: time.Millisecond}, management}
		if err := b.Channel(t).ExchangeDeclare(r.Topology.Retry(), "fanout", true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.DeleteExchange(t, r.Topology.Retry()) })
		test(t, r)
	})
}

// policy saves a policy of another owner.
func (r rig) policy(t *testing.T, p rabbit.Policy) {
	t.Helper()
	if err := r.management.SavePolicy(t.Context(), r.Editor.VHost, p); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.management.DeletePolicy(context.Background(), r.Editor.VHost, p.Name) }) // the test may have deleted it
}

// add makes a planned change, and returns the queue with it.
func (r rig) apply(t *testing.T, plan func(context.Context, string) (queuepolicy.Change, error), queue string) (queuepolicy.Change, rabbit.Queue) {
	t.Helper()
	change, err := plan(t.Context(), queue)
	if err == nil {
		err = r.Apply(t.Context(), change)
	}
	if err != nil {
		t.Fatal(err)
	}
	if change.Save != nil {
		t.Cleanup(func() { _ = r.management.DeletePolicy(context.Background(), r.Editor.VHost, change.Save.Name) })
	}
	found, err := r.management.Queue(t.Context(), r.Editor.VHost, queue)
	if err != nil {
		t.Fatal(err)
	}
	return change, found
}

func (r rig) wantRefusal(t *testing.T, queue string, texts ...string) {
	t.Helper()
	_, err := r.Add(t.Context(), queue)
	var refused *queuepolicy.RefusedError
	if !errors.As(err, &refused) {
		t.Fatalf("queue %s: %v", queue, err)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("queue %s: %q does not say %q", queue, err, text)
		}
	}
}

func TestDeadLettersComeAndGo(t *testing.T) {
	each(t, func(t *testing.T, r rig) {
		for _, kind := range []string{"classic", "quorum"} {
			queue := r.Queue(t, amqp.Table{"x-queue-type": kind})
			change, found := r.apply(t, r.Add, queue)
			if exchange, _ := found.DeadLetterExchange(); exchange != r.Topology.Retry() || change.Merged != "" {
				t.Errorf("%s: dead letters go to %q, after %+v", kind, exchange, change)
			}
			if strategy := found.Effective["dead-letter-strategy"]; (strategy == "at-least-once") != (kind == "quorum") {
				t.Errorf("%s: strategy %v", kind, strategy)
			}
			if again, _ := r.apply(t, r.Add, queue); again.Save != nil || len(again.Notes) != 1 {
				t.Errorf("%s: added twice: %+v", kind, again)
			}
			if _, found = r.apply(t, r.Remove, queue); found.Policy != "" {
				t.Errorf("%s: after the removal it has policy %q", kind, found.Policy)
			}
			if _, err := r.Remove(t.Context(), queue); err == nil || !strings.Contains(err.Error(), "there is no policy") {
				t.Errorf("%s: removed twice: %v", kind, err)
			}
		}
	})
}

// Another policy keeps its effect, and applies alone again after the removal.
func TestPoliciesAreMerged(t *testing.T) {
	each(t, func(t *testing.T, r rig) {
		queue := r.Queue(t, amqp.Table{"x-queue-type": "quorum"})
		low := rabbit.Policy{Name: queue + "-low", Pattern: "^" + queue, ApplyTo: "all", Priority: 1, Definition: map[string]any{"max-length": 7.0}}
		high := rabbit.Policy{Name: queue + "-high", Pattern: queue + "$", ApplyTo: "queues", Priority: 5, Definition: map[string]any{"max-length": 9.0, "delivery-limit": 3.0}}
		exchanges := rabbit.Policy{Name: queue + "-exchanges", Pattern: ".*" + queue, ApplyTo: "exchanges", Priority: 99, Definition: map[string]any{"alternate-exchange": "x"}}
		for _, p := range []rabbit.Policy{low, high, exchanges} {
			r.policy(t, p)
		}
		change, found := r.apply(t, r.Add, queue)
		if change.Merged != high.Name || change.Save.Priority != 6 || !strings.Contains(change.Text(), "at most once") {
			t.Errorf("%s", change.Text())
		}
		if e := found.Effective; e["max-length"] != 9.0 || e["delivery-limit"] != 3.0 || e["dead-letter-strategy"] != nil {
			t.Errorf("the queue has %v", e)
		}
		high.Definition["max-length"] = 11.0 // its owner changes it
		r.policy(t, high)
		if _, found = r.apply(t, r.Add, queue); found.Effective["max-length"] != 11.0 {
			t.Errorf("after a change of the other policy and another add the queue has %v", found.Effective)
		}
		change, found = r.apply(t, r.Remove, queue)
		if change.Merged != high.Name || found.Policy != high.Name || found.Effective["dead-letter-exchange"] != nil {
			t.Errorf("after the removal: %q, %v; %s", found.Policy, found.Effective, change.Text())
		}
	})
}

// The owner of another policy may choose the same exchange later. It has its effect, although RabbitMQ
// applies the policy of Add.
func TestAnotherPolicyGetsTheExchange(t *testing.T) {
	each(t, func(t *testing.T, r rig) {
		queue := r.Queue(t, nil)
		r.apply(t, r.Add, queue)
		r.policy(t, rabbit.Policy{
			Name: queue + "-other", Pattern: "^" + queue, ApplyTo: "queues", Priority: -1, Definition: map[string]any{"dead-letter-exchange": r.Topology.Retry()},
		})
		if change, err := r.Add(t.Context(), queue); err != nil || change.Save != nil || !strings.Contains(change.Text(), "to Watership already") {
			t.Errorf("%s, %v", change.Text(), err)
		}
	})
}

// Messages that a queue dropped without a dead-letter exchange become failures with one.
func TestDroppedMessagesBecomeFailures(t *testing.T) {
	each(t, func(t *testing.T, r rig) {
		const expired, full = "messages that expire by message-ttl", "messages that the queue drops by "
		for name, test := range map[string]struct {
			args   amqp.Table
			policy map[string]any
			notes  []string
		}{
			"argument message-ttl":     {args: amqp.Table{"x-message-ttl": 60_000}, notes: []string{expired}},
			"policy message-ttl":       {policy: map[string]any{"message-ttl": 60_000}, notes: []string{expired}},
			"argument max-length":      {args: amqp.Table{"x-max-length": 9}, notes: []string{full + "max-length "}},
			"all limits":               {args: amqp.Table{"x-max-length-bytes": 9_000}, policy: map[string]any{"max-length": 9, "message-ttl": 60_000}, notes: []string{expired, full + "max-length ", full + "max-length-bytes "}},
			"drop-head":                {args: amqp.Table{"x-overflow": "drop-head"}, policy: map[string]any{"overflow": "reject-publish", "max-length": 9}, notes: []string{full + "max-length "}},
			"reject-publish":           {policy: map[string]any{"overflow": "reject-publish", "max-length": 9}},
			"reject-publish, argument": {args: amqp.Table{"x-overflow": "reject-publish", "x-max-length": 9}},
			"drop-head, quorum": {
				args:   amqp.Table{"x-queue-type": "quorum", "x-overflow": "reject-publish"},
				policy: map[string]any{"overflow": "drop-head", "max-length": 9}, notes: []string{full + "max-length "},
			},
			"expiry of the queue":      {args: amqp.Table{"x-expires": 600_000}},
			"overflow without a limit": {policy: map[string]any{"overflow": "reject-publish-dlx"}},
		} {
			queue := r.Queue(t, test.args)
			if test.policy != nil {
				r.policy(t, rabbit.Policy{Name: queue + "-other", Pattern: "^" + queue + "$", ApplyTo: "queues", Definition: test.policy})
			}
			change, err := r.Add(t.Context(), queue)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			for _, note := range test.notes {
				if !strings.Contains(change.Text(), note) {
					t.Errorf("%s: %q is not in\n%s", name, note, change.Text())
				}
			}
			if got := strings.Count(change.Text(), "failures from now on"); got != len(test.notes) {
				t.Errorf("%s: %d remarks in\n%s", name, got, change.Text())
			}
		}
	})
}

// A rejected publish is repeated by the publisher, so a failure of it would arrive twice.
func TestRejectedPublishesAreNoFailures(t *testing.T) {
	each(t, func(t *testing.T, r rig) {
		declared := r.Queue(t, amqp.Table{"x-overflow": "reject-publish-dlx", "x-max-length": 9})
		r.wantRefusal(t, declared, "reject-publish-dlx", "twice", "its owner has to declare it again, with overflow reject-publish")
		queue := r.Queue(t, amqp.Table{"x-max-length-bytes": 9_000})
		other := rabbit.Policy{Name: queue + "-other", Pattern: "^" + queue + "$", ApplyTo: "queues", Definition: map[string]any{"overflow": "reject-publish-dlx"}}
		r.policy(t, other)
		r.wantRefusal(t, queue, "reject-publish-dlx", "twice", `change overflow to reject-publish in policy "`+other.Name+`"`)
		other.Definition["overflow"] = "reject-publish"
		r.policy(t, other)
		if _, err := r.Add(t.Context(), queue); err != nil {
			t.Error(err)
		}
	})
}

func TestQueuesThatAreRefused(t *testing.T) {
	each(t, func(t *testing.T, r rig) {
		r.wantRefusal(t, "absent", "does not exist", "start the program")
		r.wantRefusal(t, r.Topology.Log(), "does not exist")
		r.wantRefusal(t, r.Queue(t, amqp.Table{"x-dead-letter-exchange": "elsewhere"}), `"elsewhere"`, "a policy cannot change", "declare it again", "watership adopt")
		if !r.Own { // the embedded broker has no streams
			r.wantRefusal(t, r.Queue(t, amqp.Table{"x-queue-type": "stream"}), "is a stream")
		}
		queue := r.Queue(t, nil)
		other := rabbit.Policy{Name: queue + "-other", Pattern: "^" + queue + "$", ApplyTo: "queues", Definition: map[string]any{"dead-letter-exchange": "elsewhere"}}
		r.policy(t, other)
		r.wantRefusal(t, queue, "exchange elsewhere", "which would get none any more", other.Name)
		if change, err := r.Add(t.Context(), r.Queue(t, amqp.Table{"x-dead-letter-exchange": r.Topology.Retry()})); err != nil || change.Save != nil {
			t.Errorf("declared with the exchange: %+v, %v", change, err)
		}
		plain := r.Queue(t, nil)
		r.policy(t, rabbit.Policy{Name: plain + "-pcre", Pattern: "^(?!" + plain + "z)", ApplyTo: "queues", Priority: -99, Definition: map[string]any{"max-length": 99_999.0}})
		r.Topology.Prefix += "y"
		r.wantRefusal(t, plain, r.Topology.Retry()+" does not exist", "run watership setup")
	})
}

// Policies with look-around patterns are merged as any others: into the policy of a queue that is
// so new that the management API does not tell its policy yet, and again after a change.
func TestPatternsOfPCRE(t *testing.T) {
	each(t, func(t *testing.T, r rig) {
		all := rabbit.Policy{Name: "HA", Pattern: `^(?!amq\.).*`, ApplyTo: "all", Priority: -10, Definition: map[string]any{"max-length": 9.0}}
		errors := rabbit.Policy{Name: "errors", Pattern: `^.*(?<=error)$`, ApplyTo: "queues", Priority: 1, Definition: map[string]any{"max-length": 1.0}}
		for _, p := range []rabbit.Policy{all, errors} {
			r.policy(t, p)
		}
		queue := r.Queue(t, nil)
		change, found := r.apply(t, r.Add, queue)
		if exchange, _ := found.DeadLetterExchange(); change.Merged != all.Name || found.Effective["max-length"] != 9.0 || exchange != r.Topology.Retry() {
			t.Errorf("a new queue has %v, after\n%s", found.Effective, change.Text())
		}
		if again, err := r.Add(t.Context(), queue); err != nil || again.Save != nil || again.Merged != all.Name {
			t.Errorf("added twice: %s, %v", again.Text(), err)
		}
		all.Definition["max-length"] = 2_000_000.0 // its owner changes it
		r.policy(t, all)
		change, found = r.apply(t, r.Add, queue)
		if found.Effective["max-length"] != 2_000_000.0 || !strings.Contains(change.Text(), "max-length: 2000000\n") {
			t.Errorf("after a change of the other policy the queue has %v, after\n%s", found.Effective, change.Text())
		}
	})
}

// A pattern that only RabbitMQ can read is refused, unless RabbitMQ tells which policy applies.
func TestPatternsThatOnlyRabbitMQReads(t *testing.T) {
	each(t, func(t *testing.T, r rig) {
		if r.Own {
			t.Skip("the embedded broker cannot read the pattern either")
		}
		queue := r.Queue(t, nil)
		recursive := rabbit.Policy{Name: "recursive", Pattern: `^(?:[^()]|\((?R)\))*`, ApplyTo: "queues", Definition: map[string]any{"max-length": 9.0}}
		r.policy(t, recursive)
		r.wantRefusal(t, queue, "cannot be read", "by hand")
		for found := (rabbit.Queue{}); found.Policy == ""; {
			var err error
			if found, err = r.management.Queue(t.Context(), r.Editor.VHost, queue); err != nil {
				t.Fatal(err)
			}
		}
		if change, found := r.apply(t, r.Add, queue); change.Merged != recursive.Name || found.Effective["max-length"] != 9.0 {
			t.Errorf("the queue has %v, after\n%s", found.Effective, change.Text())
		}
		r.wantRefusal(t, queue, "cannot be read", "by hand")
	})
}

// RabbitMQ applies no policy with a setting that the type of a queue does not support: not the
// policy of another owner, and not one that repeats it.
func TestPoliciesForOtherTypes(t *testing.T) {
	each(t, func(t *testing.T, r rig) {
		for kind, definition := range map[string]map[string]any{
			"classic": {"message-ttl": 60_000.0, "delivery-limit": 3.0, "dead-letter-exchange": r.Topology.Retry()},
			"quorum":  {"message-ttl": 60_000.0, "queue-mode": "lazy"},
		} {
			if kind == "quorum" && r.Own {
				continue // the embedded broker does not have the setting
			}
			queue := r.Queue(t, amqp.Table{"x-queue-type": kind})
			r.policy(t, rabbit.Policy{Name: queue + "-other", Pattern: "^" + queue, ApplyTo: "queues", Priority: 3, Definition: definition})
			change, found := r.apply(t, r.Add, queue)
			if exchange, _ := found.DeadLetterExchange(); exchange != r.Topology.Retry() || change.Merged != "" {
				t.Errorf("%s: dead letters go to %q, after\n%s", kind, exchange, change.Text())
			}
		}
	})
}

// notApplied is a management API whose queue never gets its policies.
type notApplied struct {
	queuepolicy.Management
	policies []rabbit.Policy
}

func (notApplied) Queue(_ context.Context, _, name string) (rabbit.Queue, error) {
	return rabbit.Queue{Name: name, Type: "classic"}, nil
}

func (notApplied) Exchange(context.Context, string, string) (rabbit.Exchange, error) {
	return rabbit.Exchange{}, nil
}

func (n *notApplied) Policies(context.Context, string) ([]rabbit.Policy, error) {
	return n.policies, nil
}

func (n *notApplied) SavePolicy(_ context.Context, _ string, p rabbit.Policy) error {
	n.policies = append(n.policies, p)
	return nil
}

// A policy that is there and that RabbitMQ does not apply, for a reason that is not known here, is no success.
func TestPoliciesThatAreNotApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		management := &notApplied{}
		editor := queuepolicy.Editor{Management: management, VHost: "/"}
		change, err := editor.Add(t.Context(), "plain")
		if err != nil {
			t.Fatal(err)
		}
		if err := editor.Apply(t.Context(), change); err == nil || !strings.Contains(err.Error(), "has not applied") {
			t.Errorf("saved: %v", err)
		}
		var refused *queuepolicy.RefusedError
		if _, err := editor.Add(t.Context(), "plain"); !errors.As(err, &refused) || !strings.Contains(err.Error(), "does not apply it") {
			t.Errorf("added again: %v", err)
		}
		management.policies = []rabbit.Policy{{Name: "other", Pattern: "^plain", Definition: map[string]any{"dead-letter-exchange": editor.Topology.Retry()}}}
		if _, err := editor.Add(t.Context(), "plain"); !errors.As(err, &refused) || !strings.Contains(err.Error(), `policy "other"`) {
			t.Errorf("another owner's: %v", err)
		}
	})
}
