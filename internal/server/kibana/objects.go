// Package kibana makes the saved objects of Kibana and imports them.
package kibana

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// The versions of the saved objects, from which Kibana migrates them
// (https://www.elastic.co/guide/en/kibana/8.19/saved-objects-api-import.html):
// the versions of Kibana 8.9, which every later 8.x and 9.x reads.
const (
	coreVersion      = "8.8.0"
	dataViewVersion  = "8.0.0"
	searchVersion    = "8.0.0"
	lensVersion      = "8.9.0"
	dashboardVersion = "8.9.0"
)

// Objects returns Kibana's saved objects as NDJSON, for data streams whose names begin
// with stream: the data view, searches, and a dashboard with its panels. Their ids
// derive from stream, so an import with overwrite updates them. Ids of messages and of
// jobs link to the console at an address; "": to a search in Kibana.
func Objects(stream, console string) ([]byte, error) {
	b := bundle{stream, console}
	objects := append([]savedObject{b.dataView()}, b.searches()...)
	panels := b.panels()
	objects = append(objects, panels...)
	objects = append(objects, b.dashboard(panels))
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	encoder.SetEscapeHTML(false)
	for _, object := range objects {
		if err := encoder.Encode(object); err != nil {
			return nil, fmt.Errorf("writing Kibana's %s %s: %w", object.Type, object.ID, err)
		}
	}
	return lines.Bytes(), nil
}

// savedObject is an object as Kibana exports and imports it.
type savedObject struct {
	Type                 string         `json:"type"`
	ID                   string         `json:"id"`
	Attributes           map[string]any `json:"attributes"`
	References           []reference    `json:"references"`
	CoreMigrationVersion string         `json:"coreMigrationVersion"`
	TypeMigrationVersion string         `json:"typeMigrationVersion"`
}

// reference names another object: the attributes have the name, and Kibana may give
// the other object a new id.
type reference struct {
	Name string `json:"name"`
	Type string `json:"type"`
	ID   string `json:"id"`
}

// bundle makes the saved objects of one Watership.
type bundle struct{ stream, console string }

func (b bundle) id(suffix string) string { return b.stream + "-" + suffix }

// encodeJSON encodes an attribute that is JSON in a string, as many of Kibana's are.
func encodeJSON(value any) string {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(fmt.Sprintf("kibana: encoding a saved object: %v", err)) // its values are maps, strings and numbers
	}
	return string(bytes.TrimSpace(text.Bytes()))
}

func kuery(query string) map[string]any {
	return map[string]any{"language": "kuery", "query": query}
}
