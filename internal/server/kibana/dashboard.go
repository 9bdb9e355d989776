package kibana

import (
	"strconv"

	"github.com/watershipmq/watership/eventstore"
)

// The names of the only layer of a visualization and of its columns.
const (
	lensLayer        = "layer"
	horizontalColumn = "across"
	breakdownColumn  = "split"
	verticalColumn   = "measure"
)

// lensPanel is a chart of the dashboard: bars over time or over the values of a
// field, each in parts by the values of another.
type lensPanel struct {
	id, title, query      string
	series                string         // bar_stacked, bar_horizontal_stacked, line
	horizontal, breakdown map[string]any // breakdown may be nil
	vertical              map[string]any
}

func (b bundle) panels() []savedObject {
	list := []lensPanel{
		{"rate", "Events", "", "bar_stacked", overTime(), topOf("event.action", "Action", "string"), countOf("Events")},
		{
			"failures-by-queue", "Failed attempts by queue", "event.action: (retry_scheduled or poisoned)", "bar_horizontal_stacked",
			topOf("watership.queue", "Queue", "string"), topOf("event.action", "Action", "string"), countOf("Attempts"),
		},
		{
			"failures-by-error", "Given up, by error", "event.action: poisoned", "bar_horizontal_stacked",
			topOf("watership.error_group", "Error", "string"), topOf("watership.queue", "Queue", "string"), countOf("Messages"),
		},
		{
			"attempts", "Retry attempts", "event.action: (retry_scheduled or poisoned or handled) and watership.attempt >= 1", "bar_stacked",
			topOf("watership.attempt", "Attempt", "number"), topOf("event.action", "Action", "string"), countOf("Messages"),
		},
		{
			"replay-activity", "Replays", "event.action: replayed or (event.action: (handled or poisoned) and watership.replay.job: *)", "bar_stacked",
			overTime(), topOf("event.action", "Action", "string"), countOf("Messages"),
		},
		{
			"lag", "How late events are stored (95 % of them)", "not watership.time_source: publisher", "line",
			overTime(), nil, percentile(eventstore.LagField, "Lag", 95),
		},
	}
	objects := make([]savedObject, len(list))
	for i, p := range list {
		objects[i] = b.lens(p)
	}
	return objects
}

func overTime() map[string]any {
	return map[string]any{
		"label": "Time", "customLabel": true, "dataType": "date", "isBucketed": true, "operationType": "date_histogram",
		"scale": "interval", "sourceField": "@timestamp",
		"params": map[string]any{"interval": "auto", "includeEmptyRows": true, "dropPartials": false},
	}
}

func topOf(field, label, kind string) map[string]any {
	return map[string]any{
		"label": label, "customLabel": true, "dataType": kind, "isBucketed": true, "operationType": "terms",
		"scale": "ordinal", "sourceField": field,
		"params": map[string]any{
			"size": 10, "orderBy": map[string]any{"type": "column", "columnId": verticalColumn}, "orderDirection": "desc",
			"otherBucket": true, "missingBucket": false, "parentFormat": map[string]any{"id": "terms"},
		},
	}
}

// lensRecords is Lens's name for whole documents.
const lensRecords = "___records___"

func countOf(label string) map[string]any {
	return map[string]any{
		"label": label, "customLabel": true, "dataType": "number", "isBucketed": false, "operationType": "count",
		"scale": "ratio", "sourceField": lensRecords, "params": map[string]any{"emptyAsNull": true},
	}
}

func percentile(field, label string, of int) map[string]any {
	return map[string]any{
		"label": label, "customLabel": true, "dataType": "number", "isBucketed": false, "operationType": "percentile",
		"scale": "ratio", "sourceField": field, "params": map[string]any{"percentile": of},
	}
}

func (b bundle) lens(p lensPanel) savedObject {
	columns := map[string]any{horizontalColumn: p.horizontal, verticalColumn: p.vertical}
	order := []string{horizontalColumn, verticalColumn}
	layer := map[string]any{
		"layerId": lensLayer, "layerType": "data", "seriesType": p.series, "position": "top", "showGridlines": false,
		"xAccessor": horizontalColumn, "accessors": []string{verticalColumn},
	}
	if p.breakdown != nil {
		columns[breakdownColumn], layer["splitAccessor"] = p.breakdown, breakdownColumn
		order = []string{horizontalColumn, breakdownColumn, verticalColumn}
	}
	return savedObject{
		Type: "lens", ID: b.id(p.id), CoreMigrationVersion: coreVersion, TypeMigrationVersion: lensVersion,
		References: []reference{{"indexpattern-datasource-layer-" + lensLayer, "index-pattern", b.stream}},
		Attributes: map[string]any{
			"title": "Watership: " + p.title, "description": "", "visualizationType": "lnsXY",
			"state": map[string]any{
				"query": kuery(p.query), "filters": []any{}, "internalReferences": []any{}, "adHocDataViews": map[string]any{},
				"datasourceStates": map[string]any{"formBased": map[string]any{"layers": map[string]any{
					lensLayer: map[string]any{"columns": columns, "columnOrder": order, "incompleteColumns": map[string]any{}, "sampling": 1},
				}}},
				"visualization": map[string]any{
					"legend": map[string]any{"isVisible": true, "position": "right"}, "valueLabels": "hide",
					"preferredSeriesType": p.series, "layers": []any{layer},
				},
			},
		},
	}
}

// The dashboard has two panels a row, on Kibana's grid of 48 columns.
const (
	panelWidth  = 24
	panelHeight = 13
)

func (b bundle) dashboard(panels []savedObject) savedObject {
	var placements []map[string]any
	var references []reference
	addPanel := func(kind, id, title string, x, y, width int) {
		index := strconv.Itoa(len(placements))
		name := "panel_" + index
		placements = append(placements, map[string]any{
			"version": dashboardVersion, "type": kind, "panelIndex": index, "panelRefName": name, "title": title,
			"gridData":         map[string]any{"x": x, "y": y, "w": width, "h": panelHeight, "i": index},
			"embeddableConfig": map[string]any{"enhancements": map[string]any{}},
		})
		references = append(references, reference{index + ":" + name, kind, id})
	}
	for i, p := range panels {
		addPanel("lens", p.ID, p.Attributes["title"].(string)[len("Watership: "):], i%2*panelWidth, i/2*panelHeight, panelWidth)
	}
	addPanel("search", b.id("poison"), "Given up", 0, (len(panels)+1)/2*panelHeight, 2*panelWidth)
	return savedObject{
		Type: "dashboard", ID: b.id("overview"), References: references,
		CoreMigrationVersion: coreVersion, TypeMigrationVersion: dashboardVersion,
		Attributes: map[string]any{
			"title": "Watership", "description": "Rate, failures, retries, replays and lag.", "version": 1,
			"timeRestore": true, "timeFrom": "now-24h", "timeTo": "now",
			"refreshInterval": map[string]any{"pause": true, "value": 60000},
			"panelsJSON":      encodeJSON(placements),
			"optionsJSON":     encodeJSON(map[string]any{"useMargins": true, "syncColors": true, "syncCursor": true, "syncTooltips": false, "hidePanelTitles": false}),
			"kibanaSavedObjectMeta": map[string]any{"searchSourceJSON": encodeJSON(map[string]any{
				"query": kuery(""), "filter": []any{},
			})},
		},
	}
}
