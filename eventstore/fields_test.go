package eventstore_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
)

// The mapping has fields that Elasticsearch only stores. The error of a query for
// one of them names the fields to search instead.
func TestStoredFieldsSayWhatToSearch(t *testing.T) {
	fields, err := eventstore.Fields()
	if err != nil {
		t.Fatal(err)
	}
	stored := 0
	for name, kind := range leaves(t) {
		_, err := kql.Resolve(kql.Exists{Field: kql.Pattern{name}}, fields)
		if searched := kind.Type != "binary" && (kind.Index == nil || kind.Type != "text") && kind.Enabled == nil; searched {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if stored++; err == nil || !strings.Contains(err.Error(), name+" is stored and not indexed: search ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if stored != 3 {
		t.Errorf("%d fields are only stored, want amqp, body.raw and body.unindexed", stored)
	}
}

type leaf struct {
	Type           string
	Enabled, Index *bool
	Properties     map[string]leaf
}

// leaves are the fields of the mapping, by their full names.
func leaves(t *testing.T) map[string]leaf {
	t.Helper()
	var template struct{ Template struct{ Mappings leaf } }
	if err := json.Unmarshal(eventstore.MappingsTemplate(), &template); err != nil {
		t.Fatal(err)
	}
	found := map[string]leaf{}
	var walk func(path string, of leaf)
	walk = func(path string, of leaf) {
		if len(of.Properties) == 0 {
			found[path] = of
		}
		for name, child := range of.Properties {
			walk(strings.TrimPrefix(path+"."+name, "."), child)
		}
	}
	walk("", template.Template.Mappings)
	return found
}
