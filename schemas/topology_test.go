package schemas_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/internal/wire/wiretest"
	"github.com/watershipmq/watership/schemas"
)

var topologies = []schemas.Topology{{}, {Prefix: "shop"}, {Prefix: "shop.messages"}, {IndexLimit: 1}, {Prefix: "a", IndexLimit: math.MaxInt64}}

// No two exchanges have the same name, nor any two queues, and Watership owns them all.
func TestNamesAreItsOwn(t *testing.T) {
	delays := []time.Duration{0, time.Millisecond, time.Second, 24 * time.Hour}
	for _, topology := range topologies {
		queues := topology.Queues()
		for _, delay := range delays {
			queues = append(queues, wire.DelaysOf(topology).Queue(delay), wire.DelaysOf(topology).Former(delay))
		}
		for _, names := range [][]string{topology.Exchanges(), queues} {
			unique := slices.Compact(slices.Sorted(slices.Values(names)))
			if len(unique) != len(names) {
				t.Errorf("%+v: two of %q are equal", topology, names)
			}
			for _, name := range names {
				if !topology.Owns(name) || len(name) > 255 {
					t.Errorf("%+v does not own %q", topology, name)
				}
				if other := (schemas.Topology{Prefix: "another"}); other.Owns(name) {
					t.Errorf("%+v owns %q", other, name)
				}
			}
		}
		for _, indexed := range topology.Indexed() {
			if !slices.Contains(topology.Queues(), indexed) {
				t.Errorf("%+v: %q is consumed and no queue", topology, indexed)
			}
		}
	}
	if (schemas.Topology{}).Owns("watership") || (schemas.Topology{}).Owns("watershipx.tap") {
		t.Error("a name without the prefix and a dot is owned")
	}
}

// Names of delay queues are recognized, of this release and of a former one, and no
// others are.
func TestDelaysAreRecognized(t *testing.T) {
	for _, topology := range topologies {
		for _, delay := range []time.Duration{0, time.Millisecond, 1500 * time.Millisecond, time.Hour, math.MaxInt64} {
			queue, former := wire.DelaysOf(topology).Queue(delay), wire.DelaysOf(topology).Former(delay)
			if !wire.DelaysOf(topology).Has(queue) || wire.DelaysOf(topology).HasFormer(queue) {
				t.Errorf("%s is no delay queue", queue)
			}
			if !wire.DelaysOf(topology).HasFormer(former) || wire.DelaysOf(topology).Has(former) {
				t.Errorf("%s is no former delay queue", former)
			}
			want := min(delay, header.LongestDelay).Truncate(time.Millisecond)
			if wire.DelaysOf(topology).Of(queue) != want || wire.DelaysOf(topology).Of(former) != want || wire.DelaysOf(topology).Of(topology.Due()) != 0 {
				t.Errorf("%s waits for %s, want %s", queue, wire.DelaysOf(topology).Of(queue), want)
			}
		}
		zeroth := strings.TrimSuffix(wire.DelaysOf(topology).Queue(0), "0")
		for _, name := range append(topology.Queues(), zeroth, zeroth+"x", zeroth+"-1", zeroth+"1.5", zeroth+"99999999999999999999", "other.wait.1000", "") {
			if wire.DelaysOf(topology).Has(name) {
				t.Errorf("%q is taken for a delay queue", name)
			}
		}
	}
}

// The queues of copies with another limit are known with their limit, so that their
// messages can be moved.
func TestFormerIndexes(t *testing.T) {
	for _, prefix := range []string{"", "shop"} {
		for _, now := range []int64{0, 1, 20, -20} {
			topology := schemas.Topology{Prefix: prefix, IndexLimit: max(now, -now), ClassicIndex: now < 0}
			for _, limit := range []int64{0, 1, 20, 21, math.MaxInt64, -1, -20, -math.MaxInt64} {
				former := schemas.Topology{Prefix: prefix, IndexLimit: max(limit, -limit), ClassicIndex: limit < 0}
				for _, queue := range []string{former.Index(), former.IndexLate()} {
					if got, is := topology.FormerIndex(queue); is != (limit != now) || is && got != former {
						t.Errorf("with the limit %d, %s is former: %v, of %+v", now, queue, is, got)
					}
				}
			}
			for _, queue := range []string{topology.Log(), topology.Index() + "x", topology.Index() + ".01", topology.Index() + ".-5", "other.index.5", topology.Name(".index.5.5"), topology.Name(".index.5.classic")} {
				if got, is := topology.FormerIndex(queue); is {
					t.Errorf("with the limit %d, %s is former, of %+v", now, queue, got)
				}
			}
		}
	}
}

// One queue has the names of releases that had one. The names of several tell how copies are
// divided, so that another division has other queues; late copies have one queue in all.
func TestPartitions(t *testing.T) {
	for _, partitions := range []int{0, 1} {
		one := schemas.Topology{IndexPartitions: partitions}
		if divides, queues := one.Partitions(); divides != "" || !slices.Equal(queues, []string{"watership.index"}) ||
			!slices.Equal(one.Indexed(), schemas.Topology{}.Indexed()) || !slices.Equal(one.Exchanges(), schemas.Topology{}.Exchanges()) {
			t.Errorf("%d partitions: %s, %v", partitions, divides, queues)
		}
	}
	divisions := []schemas.Topology{
		{},
		{IndexPartitions: 2},
		{IndexPartitions: 64},
		{IndexPartitions: 2, PartitionKey: "message_id"},
		{IndexPartitions: 2, PartitionKey: "headers.1of3.profile"},
		{IndexPartitions: 2, IndexLimit: 20},
		{IndexPartitions: 2, ClassicIndex: true, PartitionKey: "headers.a"},
		{IndexPartitions: 2, ClassicIndex: true, IndexLimit: 20},
	}
	names := map[string]bool{}
	for _, now := range divisions {
		divides, queues := now.Partitions()
		if len(queues) != max(1, now.IndexPartitions) || now.Index() != queues[0] || !now.Owns(queues[0]) {
			t.Errorf("%+v: %v", now, queues)
		}
		for _, name := range append(queues, divides) {
			if names[name] {
				t.Errorf("%+v: %s is a name of another division", now, name)
			}
			names[name] = name != ""
		}
		for _, of := range divisions {
			_, formers := of.Partitions()
			for _, queue := range formers {
				if got, former := now.FormerIndex(queue); former != (of != now) || former && got != of {
					t.Errorf("in %+v, %s is former: %v, of %+v", now, queue, former, got)
				}
			}
			if _, former := now.FormerIndex(of.IndexLate()); former != (of.IndexLate() != now.IndexLate()) {
				t.Errorf("in %+v, %s is former: %v", now, of.IndexLate(), former)
			}
		}
	}
	for _, queue := range []string{".index.3of2", ".index.0of2", ".index.01of2", ".index.2of65", ".index.1of1", ".index.1of", ".index.late.1of2", ".index.of2", ".index.1of2."} {
		if got, former := (schemas.Topology{}).FormerIndex(schemas.Topology{}.Name(queue)); former {
			t.Errorf("%s is former, of %+v", queue, got)
		}
	}
}

// A binding of the exchange of the last hop matches the messages for its queue alone.
func TestReturnArguments(t *testing.T) {
	for _, queue := range []string{"orders", ""} {
		arguments := wire.ReturnArguments(queue)
		message := wire.DefaultFrameMax.WrapForQueue(wiretest.EveryEnvelope(), schemas.State{Queue: queue}, "")
		if err := arguments.Validate(); err != nil || len(arguments) != 2 || arguments["x-match"] != "all" {
			t.Errorf("arguments %v, %v", arguments, err)
		}
		if has, _ := message.Headers["watership-queue"].(string); arguments["watership-queue"] != has {
			t.Errorf("a message for %q has the header %q, the binding %v", queue, has, arguments)
		}
	}
}
