package eventstore

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/watershipmq/watership/eventstore/kql"
)

// Fields returns the fields of the document that can be searched: the fields of the
// mapping, and the families of labels, which the mapping creates dynamically.
func Fields() (kql.Fields, error) {
	var template struct {
		Template struct {
			Mappings property `json:"mappings"`
		} `json:"template"`
	}
	if err := json.Unmarshal(MappingsTemplate(), &template); err != nil {
		return kql.Fields{}, fmt.Errorf("reading the embedded mappings: %w", err)
	}
	families := []kql.Field{{Name: "labels.*", Type: kql.Keyword}, {Name: "numeric_labels.*", Type: kql.Double}}
	return kql.Fields{
		Known: template.Template.Mappings.fields("", families),
		Unsearched: map[string]string{
			"amqp":           "is stored and not indexed: search headers.NAME or messaging.*",
			"body.raw":       "is stored and not indexed: search body.text or body.json",
			"body.unindexed": "is stored and not indexed: search body.text or body.json",
			LagField:         "is computed by Kibana and is in no event: search it in Kibana, or list the fields @timestamp and event.ingested",
		},
	}, nil
}

// ParseQuery parses a query of people: names of fields may be short, such as action for event.action, and times
// relative to now become absolute, so that it selects the same events later. Dates without a zone are in the zone of
// now. labels are the full names of labels that the query may use by the key alone. The error is a *kql.FieldError for
// a field that no event has.
func ParseQuery(text string, now time.Time, labels ...string) (kql.Node, error) {
	node, err := kql.Parse(text)
	if err != nil {
		return nil, err
	}
	fields, err := Fields()
	if err != nil {
		return nil, err
	}
	fields.Labels = labels
	if node, err = kql.Resolve(node, fields); err != nil {
		return nil, err
	}
	return kql.AbsoluteTimes(kql.InZone(node, fields, now), fields, now), nil
}

type property struct {
	Type       string              `json:"type"`
	Enabled    *bool               `json:"enabled"`
	Index      *bool               `json:"index"`
	Properties map[string]property `json:"properties"`
}

func (p property) fields(path string, list []kql.Field) []kql.Field {
	if p.Enabled != nil && !*p.Enabled || !p.searchable() {
		return list
	}
	if p.Type != "" && p.Type != "object" {
		list = append(list, kql.Field{Name: path, Type: kql.FieldType(p.Type)})
	}
	for _, name := range slices.Sorted(maps.Keys(p.Properties)) {
		child := p.Properties[name]
		if path != "" {
			name = path + "." + name
		}
		list = child.fields(name, list)
	}
	return list
}

// searchable is true for a field that only has doc_values, too: Elasticsearch reads the
// values of all documents then.
func (p property) searchable() bool {
	return p.Type != "binary" && (p.Index == nil || *p.Index || p.Type != "text")
}
