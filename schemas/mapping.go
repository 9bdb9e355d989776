package schemas

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/watershipmq/watership/schemas/query"
)

// TemplateVersion is the version of the templates that Install writes. Their _meta
// has it, next to the mark that they are Watership's.
const TemplateVersion = 1

// mappings is the component template that both data streams are composed of.
//
//go:embed templates/mappings.json
var mappings []byte

//go:embed templates/stream.json
var streamTemplate []byte

// MappingsTemplate returns the body of the component template with the mappings of
// documents.
func MappingsTemplate() []byte { return mappings }

// StreamTemplate returns the body of the index template of one data stream. With an
// empty retention, documents are never deleted.
func StreamTemplate(stream, mappings, retention string) ([]byte, error) {
	var body map[string]any
	if err := json.Unmarshal(streamTemplate, &body); err != nil {
		return nil, fmt.Errorf("reading the embedded stream template: %w", err)
	}
	body["index_patterns"] = []string{stream}
	body["composed_of"] = []string{mappings}
	if retention != "" {
		template := body["template"].(map[string]any)
		template["lifecycle"] = map[string]any{"enabled": true, "data_retention": retention}
	}
	return json.Marshal(body)
}

// LagField is a field that Kibana computes: the time from an event until it was stored.
const LagField = "watership.lag"

// Fields returns the fields of the document that can be searched: the fields of the
// mapping, and the families of labels, which the mapping creates dynamically.
func Fields() (query.Fields, error) {
	var template struct {
		Template struct {
			Mappings property `json:"mappings"`
		} `json:"template"`
	}
	if err := json.Unmarshal(mappings, &template); err != nil {
		return query.Fields{}, fmt.Errorf("reading the embedded mappings: %w", err)
	}
	families := []query.Field{{Name: "labels.*", Type: query.Keyword}, {Name: "numeric_labels.*", Type: query.Double}}
	return query.Fields{
		Known: template.Template.Mappings.fields("", families),
		Unsearched: map[string]string{
			"amqp":           "is stored and not indexed: search headers.NAME or messaging.*",
			"body.raw":       "is stored and not indexed: search body.text or body.json",
			"body.unindexed": "is stored and not indexed: search body.text or body.json",
			LagField:         "is computed by Kibana and is in no event: search it in Kibana, or list @timestamp and event.ingested (--fields)",
		},
	}, nil
}

// LabelFields returns the full names of the labels that documents of this format
// have, such as labels.tenant.
func (f DocumentFormat) LabelFields() []string {
	var names []string
	for _, header := range f.Labels {
		names = append(names, "labels."+labelName(header))
	}
	for _, header := range f.NumericLabels {
		names = append(names, "numeric_labels."+labelName(header))
	}
	return names
}

type property struct {
	Type       string              `json:"type"`
	Enabled    *bool               `json:"enabled"`
	Index      *bool               `json:"index"`
	Properties map[string]property `json:"properties"`
}

func (p property) fields(path string, list []query.Field) []query.Field {
	if p.Enabled != nil && !*p.Enabled || p.Index != nil && !*p.Index || p.Type == "binary" {
		return list
	}
	if p.Type != "" && p.Type != "object" {
		list = append(list, query.Field{Name: path, Type: query.FieldType(p.Type)})
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
