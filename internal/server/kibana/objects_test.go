package kibana

import (
	"bytes"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
)

func objectsOf(t *testing.T) []savedObject {
	t.Helper()
	text, err := Objects("shop-messages", "")
	if err != nil {
		t.Fatal(err)
	}
	var objects []savedObject
	for line := range bytes.Lines(text) {
		var object savedObject
		if err := json.Unmarshal(line, &object); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		objects = append(objects, object)
	}
	return objects
}

// walk visits every value, also those of JSON that is a text.
func walk(value any, visit func(key string, value any)) {
	switch v := value.(type) {
	case map[string]any:
		for key, child := range v {
			visit(key, child)
			walk(child, visit)
		}
	case []any:
		for _, child := range v {
			walk(child, visit)
		}
	case string:
		var inner any
		if strings.HasPrefix(v, "{") || strings.HasPrefix(v, "[") {
			if json.Unmarshal([]byte(v), &inner) == nil {
				walk(inner, visit)
			}
		}
	}
}

func kibanaFields(t *testing.T) kql.Fields {
	t.Helper()
	fields, err := eventstore.Fields()
	if err != nil {
		t.Fatal(err)
	}
	fields.Known = append(fields.Known, kql.Field{Name: eventstore.LagField, Type: kql.Long})
	return fields
}

// With the address of the console, ids link to its pages. Kibana escapes them.
func TestLinksToTheConsole(t *testing.T) {
	text, err := Objects("shop-messages", "https://watership.example")
	if err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{"https://watership.example/messages/{{value}}", "https://watership.example/replays/{{value}}"} {
		if !bytes.Contains(text, []byte(url)) {
			t.Errorf("no link to %s", url)
		}
	}
	if bytes.Contains(text, []byte("discover#/view/shop-messages-timeline?")) {
		t.Error("an id links to a search, too")
	}
}

// Every field that the objects name is one of the mapping, of a type that fits.
func TestKibanaFieldsExist(t *testing.T) {
	fields := kibanaFields(t)
	known := func(name string) kql.FieldType {
		field, ok := fields.Lookup(name)
		if !ok {
			t.Errorf("no field %q", name)
		}
		return field.Type
	}
	columns := 0
	for _, object := range objectsOf(t) {
		walk(object.Attributes, func(key string, value any) {
			v, _ := value.(map[string]any)
			switch {
			case key == "columns" && object.Type == "search":
				for _, column := range value.([]any) {
					known(column.(string))
				}
			case key == "sort":
				for _, sort := range value.([]any) {
					known(sort.([]any)[0].(string))
				}
			case v["operationType"] != nil:
				columns++
				checkColumn(t, object.ID, v, known)
			}
		})
	}
	if columns < 15 {
		t.Errorf("only %d columns were checked", columns)
	}
	view := objectsOf(t)[0].Attributes
	known(view["timeFieldName"].(string))
	var formats map[string]struct{ ID string }
	if err := json.Unmarshal([]byte(view["fieldFormatMap"].(string)), &formats); err != nil {
		t.Fatal(err)
	}
	for name, format := range formats {
		fits := map[string][]kql.FieldType{"url": {kql.Keyword}, "duration": {kql.Long}, "bytes": {kql.Long}, "number": {kql.Long}}
		if kind := known(name); !slices.Contains(fits[format.ID], kind) {
			t.Errorf("the format %s does not fit %s, a %s", format.ID, name, kind)
		}
	}
	for _, match := range regexp.MustCompile(`doc\['([^']+)'\]`).FindAllStringSubmatch(lagScript, -1) {
		if kind := known(match[1]); kind != kql.Date {
			t.Errorf("the script takes %s, a %s, for a date", match[1], kind)
		}
	}
}

func checkColumn(t *testing.T, id string, column map[string]any, known func(string) kql.FieldType) {
	t.Helper()
	field := column["sourceField"].(string)
	fits := map[string][]kql.FieldType{
		"date/date_histogram": {kql.Date}, "string/terms": {kql.Keyword}, "number/terms": {kql.Long, kql.Double}, "number/percentile": {kql.Long, kql.Double},
	}
	operation := column["dataType"].(string) + "/" + column["operationType"].(string)
	switch {
	case operation == "number/count" && field == lensRecords:
	case !slices.Contains(fits[operation], known(field)):
		t.Errorf("%s: %s does not fit %s, a %s", id, operation, field, known(field))
	}
}

// Every query is one that means something here, and so in Kibana.
func TestKibanaQueriesResolve(t *testing.T) {
	fields, queries := kibanaFields(t), 0
	for _, object := range objectsOf(t) {
		walk(object.Attributes, func(key string, value any) {
			q, is := value.(map[string]any)
			if key != "query" || !is || q["language"] != "kuery" {
				return
			}
			node, err := kql.Parse(q["query"].(string))
			if err == nil {
				_, err = kql.Resolve(node, fields)
			}
			if err != nil {
				t.Errorf("%s: %v", object.ID, err)
			}
			queries++
		})
	}
	if queries < 10 {
		t.Errorf("only %d queries were checked", queries)
	}
}

// What an object refers to is there, and every name in its attributes is a
// reference.
func TestKibanaReferencesResolve(t *testing.T) {
	objects := objectsOf(t)
	there := map[string]bool{}
	for _, object := range objects {
		if there[object.Type+object.ID] {
			t.Errorf("%s %s is there twice", object.Type, object.ID)
		}
		there[object.Type+object.ID] = true
	}
	for _, object := range objects {
		names := map[string]bool{}
		for _, r := range object.References {
			names[r.Name] = true
			if !there[r.Type+r.ID] {
				t.Errorf("%s %s refers to %s %s, which is not there", object.Type, object.ID, r.Type, r.ID)
			}
		}
		used := map[string]bool{}
		walk(object.Attributes, func(key string, value any) {
			switch panel, _ := value.(map[string]any); {
			case key == "indexRefName":
				used[value.(string)] = true
			case key == "layers" && panel != nil:
				for name := range panel {
					used["indexpattern-datasource-layer-"+name] = true
				}
			}
		})
		if object.Type == "dashboard" {
			var panels []struct {
				Index string `json:"panelIndex"`
				Name  string `json:"panelRefName"`
			}
			if err := json.Unmarshal([]byte(object.Attributes["panelsJSON"].(string)), &panels); err != nil || len(panels) != 7 {
				t.Fatalf("%d panels, %v", len(panels), err)
			}
			for _, p := range panels {
				used[p.Index+":"+p.Name] = true
			}
		}
		for name := range used {
			if !names[name] {
				t.Errorf("%s: %q is no reference", object.ID, name)
			}
		}
		if len(used) != len(names) {
			t.Errorf("%s has the references %v and uses %v", object.ID, names, used)
		}
	}
}

// The columns of a visualization are in its order, and what it shows are columns.
func TestKibanaVisualizationsAreWhole(t *testing.T) {
	for _, object := range objectsOf(t) {
		if object.Type != "lens" {
			continue
		}
		text, err := json.Marshal(object.Attributes["state"])
		if err != nil {
			t.Fatal(err)
		}
		var state struct {
			DatasourceStates struct {
				FormBased struct {
					Layers map[string]struct {
						Columns     map[string]any
						ColumnOrder []string
					}
				}
			}
			Visualization struct {
				Layers []struct {
					LayerID, XAccessor, SplitAccessor string
					Accessors                         []string
				}
			}
		}
		if err := json.Unmarshal(text, &state); err != nil {
			t.Fatal(err)
		}
		shown := state.Visualization.Layers[0]
		layer := state.DatasourceStates.FormBased.Layers[shown.LayerID]
		if len(layer.Columns) != len(layer.ColumnOrder) || len(layer.Columns) < 2 {
			t.Errorf("%s has %d columns and an order of %d", object.ID, len(layer.Columns), len(layer.ColumnOrder))
		}
		for _, name := range append(append(shown.Accessors, shown.XAccessor), layer.ColumnOrder...) {
			if layer.Columns[name] == nil {
				t.Errorf("%s: no column %s", object.ID, name)
			}
		}
		if shown.SplitAccessor != "" && layer.Columns[shown.SplitAccessor] == nil {
			t.Errorf("%s: no column %s", object.ID, shown.SplitAccessor)
		}
	}
}

func TestKibanaVersions(t *testing.T) {
	want := map[string]string{"index-pattern": "8.0.0", "search": "8.0.0", "lens": "8.9.0", "dashboard": "8.9.0"}
	kinds := map[string]int{}
	for _, object := range objectsOf(t) {
		kinds[object.Type]++
		if object.CoreMigrationVersion != "8.8.0" || object.TypeMigrationVersion != want[object.Type] {
			t.Errorf("%s %s has the versions %s and %s", object.Type, object.ID, object.CoreMigrationVersion, object.TypeMigrationVersion)
		}
		if !strings.HasPrefix(object.ID, "shop-messages") {
			t.Errorf("%s could be another Watership's", object.ID)
		}
	}
	if kinds["index-pattern"] != 1 || kinds["search"] != 6 || kinds["lens"] != 6 || kinds["dashboard"] != 1 {
		t.Errorf("there are %v", kinds)
	}
}

// The link of a message id leads to the search that is there.
func TestKibanaTimelineLink(t *testing.T) {
	b := bundle{stream: "shop"}
	url := b.linkToTimeline("messaging.message.id")["params"].(map[string]any)["urlTemplate"].(string)
	if !strings.Contains(url, "/view/"+b.id("timeline")+"?") || !strings.Contains(url, `match_phrase:(messaging.message.id:'{{value}}')`) {
		t.Error(url)
	}
}

// The data view has the data streams of one Watership, and not those of shop-messages-eu.
func TestKibanaDataViewNamesItsStreams(t *testing.T) {
	if title := objectsOf(t)[0].Attributes["title"]; title != "shop-messages-traffic,shop-messages-failures,shop-messages-traffic@*" {
		t.Errorf("its title is %v", title)
	}
}

// A link has a value as a text of Rison, in which only ' and ! mean anything.
func TestKibanaLinksTakeOddValues(t *testing.T) {
	template := bundle{stream: "shop-messages"}.linkToTimeline("messaging.message.id")["params"].(map[string]any)["urlTemplate"].(string)
	for _, id := range []string{`say "no"`, `C:\dir`, "a b&c=d#e?f", "(a,b:c)", "é*", "%41"} {
		link := strings.ReplaceAll(template, "{{value}}", strings.ReplaceAll(url.QueryEscape(id), "+", "%20"))
		_, hash, _ := strings.Cut(link, "#")
		parsed, err := url.Parse(hash)
		if err != nil {
			t.Fatalf("%q: %v", id, err)
		}
		if state := parsed.Query().Get("_a"); !strings.Contains(state, "match_phrase:(messaging.message.id:'"+id+"')") {
			t.Errorf("%q: the state is %s", id, state)
		}
	}
}
