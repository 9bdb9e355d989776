package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/internal/topology"
)

// checkLeftovers looks for leftovers of a former configuration: topologies of other
// prefixes, exchanges that are still tapped, and queues that nothing consumes.
func (t topologyChecks) checkLeftovers(ctx context.Context) {
	problems := len(t.findings)
	t.checkOtherPrefixes(ctx)
	t.checkUnconfiguredTaps(ctx)
	t.checkUnusedQueues()
	if len(t.findings) == problems {
		t.reportOK("leftovers", "nothing of another configuration is left")
	}
}

// Leftovers finds leftovers of a former configuration. Without the management API it finds
// nothing.
func Leftovers(ctx context.Context, cfg Config) []Finding {
	d := newDoctor(cfg)
	ctx, cancel := d.bounded(ctx)
	defer cancel()
	management, err := d.Management()
	if err != nil || d.readTopology(ctx, management) != nil {
		return nil
	}
	if d.conn, err = d.Connect(ctx); err != nil {
		return nil
	}
	d.management = management
	d.topology().checkLeftovers(ctx)
	return slices.DeleteFunc(d.findings, func(f Finding) bool { return f.Verdict == OK })
}

func (t topologyChecks) checkOtherPrefixes(ctx context.Context) {
	exchanges, err := t.management.Exchanges(ctx, t.VHost)
	if err != nil {
		t.report("leftovers", Warning, err.Error(), "")
		return
	}
	for _, other := range topology.OtherPrefixes(t.Topology, exchanges, slices.Collect(maps.Values(t.queues))) {
		used := slices.ContainsFunc(other.Consumed, func(queue string) bool { return t.hasConsumer(ctx, queue) })
		if !used {
			t.report("leftovers", Warning, fmt.Sprintf("no process uses topology.prefix %s, which is still in the virtual host, with %s", other.Prefix, other.Text()),
				"run watership setup --retire "+wording.Quoted(other.Prefix))
		}
	}
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
		t.report("leftovers", Warning, fmt.Sprintf("exchange %s is tapped with the key %q, which tap.exchanges does not have: its messages are recorded", exchange, strings.Join(keys[exchange], `", "`)),
			"run watership setup --untap "+wording.Quoted(exchange)+", unless another process of Watership taps it")
	}
}

// checkUnusedQueues reports queues of Watership that hold messages, and that nothing in the
// configuration uses.
func (t topologyChecks) checkUnusedQueues() {
	used, _ := t.ownQueues()
	for _, route := range t.Settings.Routes {
		used = append(used, t.Topology.Places(route.Queue))
	}
	for _, name := range slices.Sorted(maps.Keys(t.queues)) {
		queue := t.queues[name]
		_, former := t.Topology.FormerIndex(queue.Name)
		if !t.Topology.Owns(queue.Name) || former || t.Topology.Delays().HasFormer(queue.Name) || slices.Contains(used, queue.Name) {
			continue
		}
		if queue.Messages > 0 && queue.Consumers == 0 && !queue.Exclusive {
			t.report("leftovers", Warning, fmt.Sprintf("queue %s holds %s, and nothing in the configuration uses it", queue.Name, wording.Plural(int(queue.Messages), "message")),
				"delete it if no other process of Watership uses it")
		}
	}
}
