package config

import (
	"fmt"
	"slices"
	"testing"
)

// Every combination of sources: the value is of the highest one, from the file up
// to the flag, and so is its origin; IsSet reports whether there is one at all.
func TestEveryCombinationOfSources(t *testing.T) {
	for set := range 1 << 3 {
		file, environ, flags := "", []string(nil), map[string]string(nil)
		want := Setting{Key: "topology.prefix", Value: "watership", Origin: Origin{Place: Default}}
		if set&1 != 0 {
			file = "\ntopology: {prefix: file}\n"
			want.Value, want.Origin = "file", Origin{Place: File, Name: "w.yaml", Line: 2}
		}
		if set&2 != 0 {
			environ = []string{"WATERSHIP_TOPOLOGY_PREFIX=environment"}
			want.Value, want.Origin = "environment", Origin{Place: Environment, Name: "WATERSHIP_TOPOLOGY_PREFIX"}
		}
		if set&4 != 0 {
			flags = map[string]string{"topology.prefix": "flag"}
			want.Value, want.Origin = "flag", Origin{Place: Flag, Name: "--topology-prefix"}
		}
		t.Run(fmt.Sprintf("%03b", set), func(t *testing.T) {
			c := load(t, file, environ, flags)
			if !slices.Contains(c.Describe(), want) || c.Topology.Prefix != want.Value {
				t.Errorf("got %q of %v, want %v", c.Topology.Prefix, c.Describe(), want)
			}
			if got := c.IsSet("topology.prefix"); got != (set != 0) {
				t.Errorf("IsSet is %t", got)
			}
			if c.IsSet("topology.queue_type") || c.IsSet("amqp.management_url") {
				t.Error("a default or a value that follows from another is reported as set")
			}
		})
	}
}

// A layer replaces a list or a structure of a lower one as a whole.
func TestListsAndStructuresAreNotMixed(t *testing.T) {
	c := load(t, "index.labels: [a, b, c]\nretry.policies: {slow: {delays: [1m]}}\ntap.exchanges: [{name: x, type: topic}, {name: y, type: topic}]\n",
		[]string{"WATERSHIP_RETRY_POLICIES={fast: {delays: [1s]}}", "WATERSHIP_TAP_EXCHANGES=[{name: z, type: fanout}]"},
		map[string]string{"index.labels": "d"})
	if !slices.Equal(c.Index.Labels, []string{"d"}) {
		t.Errorf("labels %v", c.Index.Labels)
	}
	if got := c.policyNames(); !slices.Equal(got, []string{"default", "fast"}) {
		t.Errorf("policies %v", got)
	}
	if len(c.Tap.Exchanges) != 1 || c.Tap.Exchanges[0].Name != "z" {
		t.Errorf("exchanges %v", c.Tap.Exchanges)
	}
}

// A variable without a value and a key without one leave the layer below in force;
// a flag without a value counts.
func TestEmptyValues(t *testing.T) {
	c := load(t, "source: shop\nstop_timeout: 1s\nhttp: {listen: ':1'}\n", []string{"WATERSHIP_SOURCE="}, map[string]string{"http.listen": ""})
	if c.Source != "shop" || c.HTTP.Listen != "" || !c.IsSet("http.listen") {
		t.Errorf("source %q, listen %q", c.Source, c.HTTP.Listen)
	}
	c = load(t, "topology: {prefix: ~, queue_type: }\nlog: ~\n", nil, nil)
	if c.Topology.Prefix != "watership" || c.Topology.QueueType != "quorum" || c.IsSet("topology.prefix") {
		t.Errorf("topology %+v", c.Topology)
	}
}

// Other defaults of a command, such as dev, lie below every source.
func TestDefaultsOfACommand(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "w.yaml", "log: {format: json}\n")
	sources := Sources{File: "w.yaml", Default: map[string]string{"log.level": "warn", "log.format": "text", "amqp.url": Embedded}}
	c, err := Load(sources)
	if err != nil {
		t.Fatal(err)
	}
	if c.Log.Level.String() != "WARN" || c.Log.Format != "json" || !c.AMQP.URL.IsEmbedded() || c.IsSet("amqp.url") {
		t.Errorf("%+v %+v", c.Log, c.AMQP)
	}
}
