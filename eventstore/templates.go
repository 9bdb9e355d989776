package eventstore

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
)

// TemplateVersion is the version of the templates that Install writes. Their _meta
// has it, next to the mark that they are Watership's.
const TemplateVersion = 10

// mappings is the component template that both data streams are composed of.
//
//go:embed templates/mappings.json
var mappings []byte

//go:embed templates/stream.json
var streamTemplate []byte

//go:embed templates/failures.json
var failuresMappings []byte

// MappingsTemplate returns the body of the component template with the mappings of
// documents.
func MappingsTemplate() []byte { return mappings }

// FailuresMappingsTemplate returns the body of the component template with the mappings of the
// stream of failures that differ: values that are read of thousands of events at a time, and which
// the traffic has no room for.
func FailuresMappingsTemplate() []byte {
	body, _ := json.Marshal(map[string]any{ // it is embedded, and so valid
		"_meta":    map[string]any{"managed_by": "watership", "version": TemplateVersion},
		"template": map[string]any{"mappings": json.RawMessage(failuresMappings)},
	})
	return body
}

// customTemplate returns the name of the component template with an operator's settings for new
// indices of a data stream. Watership does not write it.
func customTemplate(stream string) string { return stream + "@custom" }

// StreamTemplate returns the body of the index template of one data stream, by its name. mappings
// names the component templates with its mappings, of which the last takes precedence. With an empty
// retention, documents are never deleted.
func StreamTemplate(stream, retention string, mappings ...string) ([]byte, error) {
	var body map[string]any
	if err := json.Unmarshal(streamTemplate, &body); err != nil {
		return nil, fmt.Errorf("reading the embedded stream template: %w", err)
	}
	body["index_patterns"] = []string{stream}
	body["composed_of"] = append(slices.Clone(mappings), customTemplate(stream)) // mappings of the index template itself would outrank it
	body["ignore_missing_component_templates"] = []string{customTemplate(stream)}
	if retention != "" {
		body["template"].(map[string]any)["lifecycle"] = map[string]any{"enabled": true, "data_retention": retention}
	}
	return json.Marshal(body)
}

// LagField is a field that Kibana computes: the time from an event until it was stored.
const LagField = "watership.lag"
