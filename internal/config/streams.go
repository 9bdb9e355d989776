package config

import (
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/streamid"
)

func readStream(l *loader, path string, n node) streamid.Rule {
	var rule streamid.Rule
	l.readFields(path, n,
		structureField{name: "exchange", read: scalar(boundedText(1, shortString), &rule.Exchange)},
		structureField{name: "key", read: scalar(boundedText(1, shortString), &rule.Key)},
		structureField{name: "id", read: template(messageKey, &rule.ID)},
		structureField{name: "version", read: template(messageKey, &rule.Version)},
	)
	return rule
}

func (k checker) checkStreams(rules []streamid.Rule, topology schemas.Topology) {
	for i, rule := range rules {
		at := element("streams", i)
		k.rejectIf(at+".id", rule.ID == "", "the id of streams, such as order-{headers.order_id}")
		k.rejectIf(at+".exchange", topology.Owns(rule.Exchange), "an exchange that is not Watership's")
	}
}
