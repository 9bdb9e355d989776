package kibana

import (
	"fmt"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/schemas"
)

// lagScript computes eventstore.LagField in milliseconds.
const lagScript = `if (doc['event.ingested'].size() > 0 && doc['@timestamp'].size() > 0) {` +
	` emit(doc['event.ingested'].value.toInstant().toEpochMilli() - doc['@timestamp'].value.toInstant().toEpochMilli()) }`

// dataView returns the data view. Its id is the stream, so links to it are predictable.
// It lists the data streams, and those with periods of rules by a pattern: STREAM-* would also match
// the data streams of another Watership whose prefix begins with STREAM.
func (b bundle) dataView() savedObject {
	return savedObject{
		Type: "index-pattern", ID: b.stream, References: []reference{},
		CoreMigrationVersion: coreVersion, TypeMigrationVersion: dataViewVersion,
		Attributes: map[string]any{
			"title":         fmt.Sprintf("%[1]s-%[2]s,%[1]s-%[3]s,%[1]s-%[2]s@*", b.stream, schemas.Traffic, schemas.Failures),
			"name":          "Watership messages",
			"timeFieldName": "@timestamp",
			"allowNoIndex":  true, // it may be imported before the first message
			"fieldAttrs":    "{}",
			"fields":        "[]",
			"sourceFilters": "[]",
			"runtimeFieldMap": encodeJSON(map[string]any{
				eventstore.LagField: map[string]any{"type": "long", "script": map[string]any{"source": lagScript}},
			}),
			"fieldFormatMap": encodeJSON(b.fieldFormats()),
		},
	}
}

// fieldFormats returns the field formatters. Ids and fingerprints link to the page of
// their message in the console, if that has an address, else to its events.
func (b bundle) fieldFormats() map[string]any {
	duration := func(input string) map[string]any {
		return map[string]any{"id": "duration", "params": map[string]any{"inputFormat": input, "outputFormat": "humanizePrecise", "useShortSuffix": true}}
	}
	return map[string]any{
		"event.duration":              duration("nanoseconds"),
		"watership.queue_time":        duration("nanoseconds"),
		"watership.total_time":        duration("nanoseconds"),
		"watership.delay":             duration("milliseconds"),
		eventstore.LagField:           duration("milliseconds"),
		"event.sequence":              map[string]any{"id": "number", "params": map[string]any{"pattern": "0"}},
		"messaging.message.body.size": map[string]any{"id": "bytes"},
		"messaging.message.id":        b.link("/messages/", "messaging.message.id"),
		"watership.fingerprint":       b.link("/messages/", "watership.fingerprint"),
		"watership.message":           b.link("/messages/", "watership.message"),
		"watership.replay.job":        b.link("/replays/", "watership.replay.job"),
	}
}

// link returns a formatter that links a value to a page of the console, or else to the
// events that have it in the field. Kibana escapes the value in the URL.
func (b bundle) link(path, field string) map[string]any {
	if b.console == "" {
		return b.linkToTimeline(field)
	}
	return linkTo(b.console + path + "{{value}}")
}

func linkTo(url string) map[string]any {
	return map[string]any{"id": "url", "params": map[string]any{"type": "a", "urlTemplate": url, "labelTemplate": "{{value}}", "openLinkInCurrentTab": false}}
}

// linkToTimeline returns a formatter that links a value to the saved search of all
// events that have it
// (https://www.elastic.co/guide/en/kibana/8.19/field-formatters-string.html). A
// relative URL without a leading slash is an application of Kibana.
//
// The value stands in a Rison string, which Kibana escapes for URLs only: the links of
// values with ' or ! do not work. A filter needs no other escapes; a query would.
func (b bundle) linkToTimeline(field string) map[string]any {
	filter := fmt.Sprintf(`('$state':(store:appState),meta:(alias:!n,disabled:!f,index:'%s',key:%s,negate:!f,params:(query:'{{value}}'),type:phrase),query:(match_phrase:(%[2]s:'{{value}}')))`, b.stream, field)
	url := fmt.Sprintf(`discover#/view/%s?_g=(time:(from:now-90d,to:now))&_a=(filters:!(%s))`, b.id("timeline"), filter)
	return linkTo(url)
}

// discoverSearch is a search in Discover.
type discoverSearch struct {
	id, title, description string
	query                  string
	columns                []string
	oldestFirst            bool
}

func (b bundle) searches() []savedObject {
	destination := []string{"messaging.destination.name", "messaging.rabbitmq.destination.routing_key"}
	failure := []string{"watership.queue", "watership.attempt", "error.type", "error.message"}
	list := []discoverSearch{
		{
			"timeline", "Watership: the life of a message", "Every event, the oldest first. Search for a message id or a fingerprint; ids with ' or ! have no link to it.", "",
			append(append([]string{"event.action"}, destination...), append(failure, "watership.replay.job")...), true,
		},
		{
			"failures", "Watership: failures", "Every attempt that failed.", "event.action: (retry_scheduled or poisoned)",
			append([]string{"event.action", "messaging.message.id"}, failure...), false,
		},
		{
			"retries", "Watership: retries", "What is tried again, and when.", "event.action: retry_scheduled",
			append([]string{"messaging.message.id", "watership.delay"}, failure...), false,
		},
		{
			"poison", "Watership: poison", "Messages that failed permanently.", "event.action: poisoned",
			append(append([]string{"messaging.message.id"}, failure...), destination...), false,
		},
		{
			"quarantine", "Watership: quarantine", "Events whose documents the store refused.", "watership.quarantined_action: *",
			append([]string{"watership.quarantined_action", "messaging.message.id", "watership.queue", "error.message"}, destination...), false,
		},
		{
			"replays", "Watership: replays", "What was sent again, and what became of it.", "event.action: replayed or watership.replay.job: *",
			[]string{"event.action", "watership.replay.job", "messaging.message.id", "watership.queue", "error.message"},
			false,
		},
	}
	objects := make([]savedObject, len(list))
	for i, s := range list {
		objects[i] = b.search(s)
	}
	return objects
}

func (b bundle) search(s discoverSearch) savedObject {
	const index = "kibanaSavedObjectMeta.searchSourceJSON.index"
	order := "desc"
	if s.oldestFirst {
		order = "asc"
	}
	return savedObject{
		Type: "search", ID: b.id(s.id), CoreMigrationVersion: coreVersion, TypeMigrationVersion: searchVersion,
		References: []reference{{index, "index-pattern", b.stream}},
		Attributes: map[string]any{
			"title": s.title, "description": s.description, "columns": s.columns, "grid": map[string]any{},
			"hideChart": false, "isTextBasedQuery": false, "timeRestore": false,
			"sort": [][]string{{"@timestamp", order}, {"event.sequence", order}},
			"kibanaSavedObjectMeta": map[string]any{"searchSourceJSON": encodeJSON(map[string]any{
				"query": kuery(s.query), "filter": []any{}, "indexRefName": index,
			})},
		},
	}
}
