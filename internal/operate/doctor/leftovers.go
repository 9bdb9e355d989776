package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/watershipmq/watership/internal/operate/doctor/commandline"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/internal/topology"
	"github.com/watershipmq/watership/internal/wire"
)

// checkLeftovers looks for leftovers of a former configuration: topologies of other
// prefixes, exchanges that are still tapped, and queues that nothing consumes.
func (t topologyChecks) checkLeftovers(ctx context.Context) {
	if t.conn == nil { // without which no queue is asked
		return
	}
	problems := len(t.findings)
	t.checkOtherPrefixes(ctx)
	t.checkUnconfiguredTaps(ctx)
	t.checkUnusedQueues(ctx)
	if len(t.findings) == problems {
		t.reportOK(LeftoversCheck, "nothing of another configuration is left")
	}
}

// Leftovers finds leftovers of a former configuration. Without the broker and its
// management API it finds nothing.
func Leftovers(ctx context.Context, cfg Config) []Finding {
	d := newDoctor(cfg)
	ctx, cancel := d.bounded(ctx)
	defer cancel()
	if d.read(ctx) != nil {
		return nil
	}
	d.topology().checkLeftovers(ctx)
	return slices.DeleteFunc(d.findings, func(f Finding) bool { return f.Verdict == OK })
}

func (t topologyChecks) checkOtherPrefixes(ctx context.Context) {
	exchanges, err := t.management.Exchanges(ctx, t.VHost)
	if err != nil {
		t.report(LeftoversUnknown, Warning, err.Error(), "")
		return
	}
	for _, other := range topology.OtherPrefixes(t.Topology, exchanges, slices.Collect(maps.Keys(t.queues))) {
		if slices.ContainsFunc(other.Queues, func(queue string) bool { return t.hasConsumer(ctx, queue) }) {
			continue
		}
		left, used, err := t.contents(ctx, other.Queues)
		switch {
		case err != nil:
			t.report(LeftoversUnknown, Warning, fmt.Sprintf("it is not known whether a process uses topology.prefix %s: %v", other.Prefix, err), "")
		case !used:
			t.reportWith(commandline.New("setup").With("retire", other.Prefix), PrefixLeft, Warning,
				fmt.Sprintf("no process uses topology.prefix %s, which is still in the virtual host, with %s", other.Prefix, left), "")
		}
	}
}

// contents describes the messages in queues, and reports whether one has a consumer. It asks the queues
// themselves, since the counts of the management API are some seconds old.
func (b *broker) contents(ctx context.Context, queues []string) (left string, used bool, err error) {
	var holding []string
	for _, queue := range queues {
		state, _, err := b.conn.CertainQueueState(ctx, queue)
		if err != nil || state.Consumers > 0 || state.Locked {
			return "", true, err
		}
		if state.Messages > 0 {
			holding = append(holding, fmt.Sprintf("%d in %s", state.Messages, queue))
		}
	}
	if len(holding) == 0 {
		return "no messages", false, nil
	}
	return "messages: " + strings.Join(holding, ", "), false, nil
}

func (t topologyChecks) checkUnconfiguredTaps(ctx context.Context) {
	if t.Embedded { // dev taps the exchanges of its example
		return
	}
	bindings, err := t.management.BindingsTo(ctx, t.VHost, t.Topology.Tap())
	if err != nil { // checkBindings reports it
		return
	}
	var taps []topology.Tap
	for _, tap := range t.Pipeline.Tap {
		taps = append(taps, topology.Tap(tap))
	}
	keys := map[string][]string{}
	for _, b := range topology.UnconfiguredTaps(bindings, taps) {
		keys[b.Source] = append(keys[b.Source], b.RoutingKey)
	}
	for _, exchange := range slices.Sorted(maps.Keys(keys)) {
		t.reportWith(commandline.New("setup").With("untap", exchange), TapLeft, Warning,
			fmt.Sprintf("exchange %s is tapped with the key %q, which tap.exchanges does not have: its messages are recorded", exchange, strings.Join(keys[exchange], `", "`)),
			"unless another process of Watership taps it")
	}
}

// checkUnusedQueues reports queues of Watership that hold messages, and that nothing in the
// configuration uses.
func (t topologyChecks) checkUnusedQueues(ctx context.Context) {
	used, _ := t.ownQueues()
	for _, route := range t.Settings.Routes {
		used = append(used, t.Topology.Places(route.Queue))
	}
	for _, name := range slices.Sorted(maps.Keys(t.queues)) {
		queue := t.queues[name]
		_, former := t.Topology.FormerIndex(queue.Name)
		if queue.Exclusive || !t.Topology.Owns(queue.Name) || former || wire.DelaysOf(t.Topology).HasFormer(queue.Name) || slices.Contains(used, queue.Name) {
			continue
		}
		state, _, err := t.conn.CertainQueueState(ctx, name)
		switch {
		case err != nil:
			t.report(LeftoversUnknown, Warning, fmt.Sprintf("it is not known whether queue %s, which nothing in the configuration uses, holds messages: %v", name, err), "")
		case state.Messages > 0 && state.Consumers == 0:
			t.report(QueueLeft, Warning, fmt.Sprintf("queue %s holds %s, and nothing in the configuration uses it", name, wording.Plural(state.Messages, "message")),
				"delete it if no other process of Watership uses it")
		}
	}
}
