package kibana

import (
	"strconv"

	"github.com/watershipmq/watership/eventstore"
)

// layer is the only one of a visualization; its columns are called by these names.
const (
	lensLayer   = "layer"
	lensAcross  = "across"
	lensSplit   = "split"
	lensMeasure = "measure"
)

// lensPanel is a chart of the dashboard: bars over time or over the values of a
// field, each in parts by the values of another.
type lensPanel struct {
	id, title, query string
	series           string         // bar_stacked, bar_horizontal_stacked, line
	across, split    map[string]any // split may be nil
	measure          map[string]any
}

func (b bundle) panels() []savedObject {
	list := []lensPanel{
		{"rate", "Events", "", "bar_stacked", overTime(), topOf("event.action", "Action", "string"), counted("Events")},
		{
			"failures-by-queue", "Failed attempts by queue", "event.action: (retry_scheduled or poisoned)", "bar_horizontal_stacked",
			topOf("watership.queue", "Queue", "string"), topOf("event.action", "Action", "string"), counted("Attempts"),
		},
		{
			"failures-by-error", "Given up, by error", "event.action: poisoned", "bar_horizontal_stacked",
			topOf("watership.error_group", "Error", "string"), topOf("watership.queue", "Queue", "string"), counted("Messages"),
		},
		{
			"attempts", "Retry attempts", "event.action: (retry_scheduled or poisoned or handled) and watership.attempt >= 1", "bar_stacked",
			topOf("watership.attempt", "Attempt", "number"), topOf("event.action", "Action", "string"), counted("Messages"),
		},
		{
			"replay-activity", "Replays", "event.action: replayed or (event.action: (handled or poisoned) and watership.replay.job: *)", "bar_stacked",
			overTime(), topOf("event.action", "Action", "string"), counted("Messages"),
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
			"size": 10, "orderBy": map[string]any{"type": "column", "columnId": lensMeasure}, "orderDirection": "desc",
			"otherBucket": true, "missingBucket": false, "parentFormat": map[string]any{"id": "terms"},
		},
	}
}

// lensRecords is Lens's name for whole documents.
const lensRecords = "___records___"

func counted(label string) map[string]any {
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
	columns := map[string]any{lensAcross: p.across, lensMeasure: p.measure}
	order := []string{lensAcross, lensMeasure}
	shown := map[string]any{
		"layerId": lensLayer, "layerType": "data", "seriesType": p.series, "position": "top", "showGridlines": false,
		"xAccessor": lensAcross, "accessors": []string{lensMeasure},
	}
	if p.split != nil {
		columns[lensSplit], shown["splitAccessor"] = p.split, lensSplit
		order = []string{lensAcross, lensSplit, lensMeasure}
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
					"preferredSeriesType": p.series, "layers": []any{shown},
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
	var placed []map[string]any
	var references []reference
	place := func(kind, id, title string, x, y, width int) {
		index := strconv.Itoa(len(placed))
		name := "panel_" + index
		placed = append(placed, map[string]any{
			"version": dashboardVersion, "type": kind, "panelIndex": index, "panelRefName": name, "title": title,
			"gridData":         map[string]any{"x": x, "y": y, "w": width, "h": panelHeight, "i": index},
			"embeddableConfig": map[string]any{"enhancements": map[string]any{}},
		})
		references = append(references, reference{index + ":" + name, kind, id})
	}
	for i, p := range panels {
		place("lens", p.ID, p.Attributes["title"].(string)[len("Watership: "):], i%2*panelWidth, i/2*panelHeight, panelWidth)
	}
	place("search", b.id("poison"), "Given up", 0, (len(panels)+1)/2*panelHeight, 2*panelWidth)
	return savedObject{
		Type: "dashboard", ID: b.id("overview"), References: references,
		CoreMigrationVersion: coreVersion, TypeMigrationVersion: dashboardVersion,
		Attributes: map[string]any{
			"title": "Watership", "description": "Rate, failures, retries, replays and lag.", "version": 1,
			"timeRestore": true, "timeFrom": "now-24h", "timeTo": "now",
			"refreshInterval": map[string]any{"pause": true, "value": 60000},
			"panelsJSON":      embedded(placed),
			"optionsJSON":     embedded(map[string]any{"useMargins": true, "syncColors": true, "syncCursor": true, "syncTooltips": false, "hidePanelTitles": false}),
			"kibanaSavedObjectMeta": map[string]any{"searchSourceJSON": embedded(map[string]any{
				"query": kuery(""), "filter": []any{},
			})},
		},
	}
}
