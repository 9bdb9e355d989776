package clustertest

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/watershipmq/watership/internal/backoff"
)

// fault harms the cluster, and heals it.
type fault struct {
	name   string
	within time.Duration // in which all roles have to go on; zero: no promise
	wait   time.Duration // that no message has to wait longer; zero: no promise
	do     func(context.Context, *run) error
}

// faults are all faults, one of which a run has.
func faults() []fault {
	const killed, lost, paused, cut, rolling = 10 * time.Second, 15 * time.Second, 30 * time.Second, 60 * time.Second, 15 * time.Second
	queues := []string{"orders", "ledger", "watership.index", "watership.log"}
	return []fault{
		{name: "none", within: killed, wait: handlerTimeout, do: func(ctx context.Context, r *run) error { return r.hold(ctx, 20*time.Second) }},

		{name: "broker-killed", within: lost, do: func(ctx context.Context, r *run) error {
			return r.killed(ctx, 20*time.Second, leaderOf(queues...))
		}},
		{name: "broker-of-order-killed", within: lost, do: func(ctx context.Context, r *run) error {
			return r.killed(ctx, 30*time.Second, nodeOf("watership.order.ledger"))
		}},
		{name: "broker-of-subscription-killed", within: lost, do: func(ctx context.Context, r *run) error {
			return r.killed(ctx, 30*time.Second, nodeOf("watership.subscription.ledger"))
		}},
		{name: "broker-of-index-killed", within: lost, do: func(ctx context.Context, r *run) error {
			return r.killed(ctx, 30*time.Second, connectedTo("watership.index"))
		}},
		{name: "broker-paused", within: paused, do: func(ctx context.Context, r *run) error {
			return r.paused(ctx, 40*time.Second, leaderOf(queues...))
		}},
		{name: "broker-paused-shortly", within: paused, do: func(ctx context.Context, r *run) error {
			return r.paused(ctx, 8*time.Second, leaderOf(queues...))
		}},
		{name: "broker-cut", within: cut, do: func(ctx context.Context, r *run) error {
			return r.cut(ctx, 40*time.Second, leaderOf(queues...), brokers(), both)
		}},
		{name: "broker-deaf", within: cut, do: func(ctx context.Context, r *run) error {
			return r.cut(ctx, 40*time.Second, leaderOf(queues...), brokers(), inwards)
		}},
		{name: "broker-mute", within: cut, do: func(ctx context.Context, r *run) error {
			return r.cut(ctx, 40*time.Second, leaderOf(queues...), brokers(), outwards)
		}},
		{name: "brokers-rolling", within: rolling, do: func(ctx context.Context, r *run) error { return r.rolling(ctx, brokers(), wholeBroker) }},
		{name: "brokers-killed", do: func(ctx context.Context, r *run) error {
			if err := r.kill(ctx, brokers()...); err != nil {
				return err
			}
			return r.start(ctx, brokers()...)
		}},

		{name: "store-master-killed", within: killed, do: func(ctx context.Context, r *run) error { return r.killed(ctx, 20*time.Second, theMaster) }},
		{name: "store-primary-killed", within: killed, do: func(ctx context.Context, r *run) error { return r.killed(ctx, 20*time.Second, thePrimary) }},
		{name: "store-primary-paused", within: cut, do: func(ctx context.Context, r *run) error { return r.paused(ctx, 50*time.Second, thePrimary) }},
		{name: "store-master-cut", within: cut, do: func(ctx context.Context, r *run) error {
			return r.cut(ctx, 40*time.Second, theMaster, stores(), both)
		}},
		{name: "store-cut-from-serve", within: killed, do: func(ctx context.Context, r *run) error {
			return r.cut(ctx, 30*time.Second, thePrimary, serves(), both)
		}},
		{name: "stores-rolling", within: rolling, do: func(ctx context.Context, r *run) error { return r.rolling(ctx, stores(), wholeStore) }},

		{name: "serve-killed-index", within: killed, do: func(ctx context.Context, r *run) error {
			return r.killed(ctx, 20*time.Second, consumerOf("watership.index"))
		}},
		{name: "serve-killed-ordered", within: killed, do: func(ctx context.Context, r *run) error {
			return r.killed(ctx, 20*time.Second, consumerOf("ledger"))
		}},
		{name: "serve-killed-subscription", within: killed, do: func(ctx context.Context, r *run) error {
			return r.killed(ctx, 20*time.Second, theSubscriber)
		}},
		{name: "serve-paused-index", within: paused, do: func(ctx context.Context, r *run) error {
			return r.paused(ctx, 45*time.Second, consumerOf("watership.index"))
		}},
		{name: "serve-paused-ordered", within: paused, do: func(ctx context.Context, r *run) error {
			return r.paused(ctx, 45*time.Second, consumerOf("ledger"))
		}},
		{name: "serve-cut", within: paused, do: func(ctx context.Context, r *run) error {
			return r.cut(ctx, 45*time.Second, consumerOf("ledger"), brokers(), both)
		}},
		{name: "serve-deaf", within: paused, do: func(ctx context.Context, r *run) error {
			return r.cut(ctx, 45*time.Second, consumerOf("watership.index"), brokers(), inwards)
		}},
		{name: "serve-cut-from-store", within: cut, do: func(ctx context.Context, r *run) error {
			return r.cut(ctx, 45*time.Second, consumerOf("watership.index"), stores(), both)
		}},
		{name: "serves-rolling", within: rolling, wait: handlerTimeout, do: func(ctx context.Context, r *run) error {
			return r.rolling(ctx, serves(), func(context.Context) error { return nil })
		}},
	}
}

// handlerTimeout is the time-out of the handlers in scripts/cluster.d/watership.yaml.
const handlerTimeout = 10 * time.Second

// target finds the node that a fault meets.
type target func(context.Context, *run) (node, error)

func leaderOf(queues ...string) target {
	return func(ctx context.Context, r *run) (node, error) {
		return leader(ctx, queues[r.random.IntN(len(queues))])
	}
}

// nodeOf finds the node of an exclusive queue, which is that of the connection that holds it.
func nodeOf(queue string) target {
	return func(ctx context.Context, _ *run) (node, error) { return home(ctx, queue) }
}

// connectedTo finds the node to which the active consumer of a queue is connected.
func connectedTo(queue string) target {
	return func(ctx context.Context, _ *run) (node, error) {
		c, err := activeConsumer(ctx, queue)
		return host(c.Channel.Node), err
	}
}

func consumerOf(queue string) target {
	return func(ctx context.Context, _ *run) (node, error) { return consumer(ctx, queue) }
}

func theMaster(ctx context.Context, _ *run) (node, error)  { return master(ctx) }
func thePrimary(ctx context.Context, _ *run) (node, error) { return primary(ctx) }

func theSubscriber(_ context.Context, r *run) (node, error) { return r.service.latest("events"), nil }

// hold waits as long as a fault lasts.
func (r *run) hold(ctx context.Context, d time.Duration) error { return backoff.Sleep(ctx, d) }

// killed kills a node, and starts it again after a time.
func (r *run) killed(ctx context.Context, d time.Duration, find target) error {
	n, err := find(ctx, r)
	if err != nil {
		return err
	}
	if err := r.kill(ctx, n); err != nil {
		return err
	}
	if err := r.hold(ctx, d); err != nil {
		return err
	}
	return r.start(ctx, n)
}

func (r *run) kill(ctx context.Context, nodes ...node) error {
	r.harm(nodes...)
	r.say("SIGKILL", nodes)
	return r.laboratory.kill(ctx, nodes...)
}

func (r *run) start(ctx context.Context, nodes ...node) error {
	err := r.laboratory.start(ctx, nodes...)
	r.say("up", nodes)
	return err
}

// paused stops the processes of a node for a time.
func (r *run) paused(ctx context.Context, d time.Duration, find target) error {
	n, err := find(ctx, r)
	if err != nil {
		return err
	}
	r.harm(n)
	r.say("SIGSTOP", []node{n})
	if err := r.laboratory.pause(n); err != nil {
		return err
	}
	wait := r.hold(ctx, d)
	r.say("SIGCONT", []node{n})
	if err := r.laboratory.resume(n); err != nil {
		return err
	}
	return wait
}

// cut loses packets between a node and others for a time.
func (r *run) cut(ctx context.Context, d time.Duration, find target, from []node, which direction) error {
	n, err := find(ctx, r)
	if err != nil {
		return err
	}
	r.harm(n)
	r.say("cut", []node{n})
	if err := r.laboratory.cut(n, without(from, n), which); err != nil {
		return err
	}
	wait := r.hold(ctx, d)
	r.say("healed", []node{n})
	if err := r.laboratory.heal(n); err != nil {
		return err
	}
	return wait
}

// rolling restarts nodes one after the other, as docs/clusters.md has it, in an order of the seed.
func (r *run) rolling(ctx context.Context, nodes []node, whole func(context.Context) error) error {
	for _, i := range r.random.Perm(len(nodes)) {
		n := nodes[i]
		r.harm(n)
		r.say("SIGTERM", []node{n})
		if err := r.stop(ctx, n); err != nil {
			return err
		}
		if err := r.start(ctx, n); err != nil {
			return err
		}
		if err := waitFor(ctx, 2*time.Minute, whole); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) stop(ctx context.Context, n node) error {
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	return r.laboratory.stop(ctx, n)
}

// shuffled returns faults in an order of the seed.
func shuffled(all []fault, random *rand.Rand) []fault {
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}
