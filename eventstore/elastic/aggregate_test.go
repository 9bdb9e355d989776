package elastic

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/elastic/internal/sourcevalues"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/eventstore/storetest"
)

func TestAggregationsConform(t *testing.T) {
	t.Parallel() // most of it is waiting
	storetest.RunAggregations(t, func(t *testing.T) storetest.Aggregations { return installed(t, Config{}) })
}

// TestDocValues: the fields that are counted by the sources are those without doc_values
// in the mapping.
func TestDocValues(t *testing.T) {
	type property struct {
		Type       string
		DocValues  *bool `json:"doc_values"`
		Properties map[string]json.RawMessage
	}
	var walk func(path string, raw json.RawMessage)
	walk = func(path string, raw json.RawMessage) {
		var p property
		if err := json.Unmarshal(raw, &p); err != nil {
			t.Fatal(err)
		}
		if has := p.DocValues == nil || *p.DocValues; sourcevalues.Needed(kql.Field{Name: path}) == has {
			t.Errorf("%s has doc_values: %v", path, has)
		}
		for name, child := range p.Properties {
			walk(strings.TrimPrefix(path+"."+name, "."), child)
		}
	}
	var template struct {
		Template struct{ Mappings json.RawMessage }
	}
	if err := json.Unmarshal(eventstore.MappingsTemplate(), &template); err != nil {
		t.Fatal(err)
	}
	walk("", template.Template.Mappings)
}
