package config

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/render/quantity"
	"github.com/watershipmq/watership/schemas"
)

// maxPeriods is the number of periods of rules: in Elasticsearch each is a data stream, with a shard
// and its open files.
const maxPeriods = 8

func readKeepRule(l *loader, path string, n node) eventstore.KeepRule {
	var rule eventstore.KeepRule
	l.readFields(path, n,
		structureField{name: "exchange", read: scalar(boundedText(1, shortString), &rule.Exchange)},
		structureField{name: "key", read: scalar(boundedText(1, shortString), &rule.Key)},
		structureField{name: "stream", read: scalar(boundedText(1, shortString), &rule.Stream)},
		structureField{name: "label", read: readEach("expected values by the names of headers, such as {x-tenant: acme}", &rule.Labels, func(l *loader, at string, f field) {
			var value string
			scalar(boundedText(0, 1000), &value)(l, at, f.Value)
			rule.Labels[f.Name] = value
		})},
		structureField{name: "keep", read: scalar(keepPeriod, &rule.Keep)},
	)
	return rule
}

// keepPeriod parses the period of a rule, which is part of the name of a data stream.
func keepPeriod(s string) (time.Duration, error) {
	if s == "forever" {
		return 0, nil
	}
	d, err := quantity.ParseDuration(s)
	if err != nil || d < time.Hour || d > 36500*day || d%time.Hour != 0 {
		return 0, errors.New("expected forever, or whole days or hours such as 730d or 12h, up to 36500d")
	}
	return d, nil
}

func (k checker) checkKeepRules(rules eventstore.KeepRules, topology schemas.Topology) {
	for i, rule := range rules {
		at := element("store.retention.rules", i)
		_, has := k.seen[at+".keep"]
		k.rejectIf(at+".keep", !has, "how long the events are kept, such as forever")
		k.rejectIf(at+".exchange", rule.Exchange == "" && rule.Key == "" && rule.Stream == "" && len(rule.Labels) == 0,
			"an exchange, key, stream or label: store.retention.traffic is for all others")
		k.rejectIf(at+".exchange", topology.Owns(rule.Exchange), "an exchange that is not Watership's")
	}
	periods := len(rules.Streams())
	k.rejectIf("store.retention.rules", periods > maxPeriods, fmt.Sprintf("rules with at most %d different periods; there are %d", maxPeriods, periods))
}

func cloneKeepRule(r eventstore.KeepRule) eventstore.KeepRule {
	r.Labels = maps.Clone(r.Labels)
	return r
}
