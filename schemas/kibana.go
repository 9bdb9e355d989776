package schemas

import (
	_ "embed"
	"encoding/json"
	"fmt"
)

//go:embed kibana/data-view.json
var dataView []byte

// KibanaObjects are the saved objects for Kibana, one a line, for data streams
// whose names begin with stream.
func KibanaObjects(stream string) ([]byte, error) {
	var object map[string]any
	if err := json.Unmarshal(dataView, &object); err != nil {
		return nil, fmt.Errorf("reading the embedded data view: %w", err)
	}
	object["id"] = stream
	object["attributes"].(map[string]any)["title"] = stream + "-*"
	line, err := json.Marshal(object)
	return append(line, '\n'), err
}
