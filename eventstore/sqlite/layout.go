package sqlite

import (
	"fmt"
	"slices"
	"strings"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
)

// layout maps the fields of documents to the columns and keys of the file.
type layout struct {
	fields      kql.Fields
	mapped      map[string]kql.Field
	dynamic     map[string]kql.Field // by the name before .*
	columns     []string             // fields that are columns of the table event
	columnIndex map[string]int       // index in columns
	textColumns []string             // the columns of the table text
}

// isSingle reports whether an event has at most one value of a field: all but subjects, and fields of
// attempts, `audited` and `triaged` events.
func isSingle(field kql.Field) bool {
	switch field.Name {
	case "user.name", "client.address", "event.reason", "watership.subject":
		return false
	}
	return !slices.ContainsFunc([]string{"watership.attempts.", "watership.audit.", "watership.triage."}, func(of string) bool {
		return strings.HasPrefix(field.Name, of)
	})
}

// hasColumn reports whether a field is a column. Of the keywords only those are that events
// are counted, joined or summarized by.
func hasColumn(field kql.Field) bool {
	switch field.Name {
	case "event.id", "event.action", "error.type", "messaging.message.id", "watership.source",
		"watership.fingerprint", "watership.message", "watership.queue", "watership.receiver", "watership.class", "watership.error_group",
		"watership.quarantined_action", "watership.replay.job", "watership.replay.of", "watership.stream.id":
		return true
	}
	return field.Type != kql.Keyword && isSingle(field)
}

// hasTerms reports whether the values of a field are in the table term or number. Values of
// two fields also have columns without indexes.
func hasTerms(field kql.Field) bool {
	switch field.Name {
	case "messaging.message.id", "watership.source":
		return true
	}
	return !hasColumn(field)
}

func newLayout(labels []string) (layout, error) {
	fields, err := eventstore.Fields()
	if err != nil {
		return layout{}, err
	}
	fields.Labels = labels
	l := layout{fields: fields, mapped: map[string]kql.Field{}, dynamic: map[string]kql.Field{}, columnIndex: map[string]int{}}
	for _, field := range fields.Known {
		if root, ok := strings.CutSuffix(field.Name, ".*"); ok {
			l.dynamic[root] = field
			continue
		}
		l.mapped[field.Name] = field
		if field.Type == kql.Text {
			l.textColumns = append(l.textColumns, field.Name)
		}
		if hasColumn(field) {
			l.columnIndex[field.Name] = len(l.columns)
			l.columns = append(l.columns, field.Name)
		}
	}
	return l, nil
}

// insertEventSQL is the SQL statement that writes a row of event. event.id is a
// generated column.
func (l layout) insertEventSQL() string {
	columns := slices.Clone(l.columns)
	columns[l.columnIndex["event.id"]] = "id"
	return fmt.Sprintf("INSERT INTO event (n, failure, kept_in, %s) VALUES (?, ?, ?%s)", quoteNames(columns), strings.Repeat(", ?", len(columns)))
}

// insertTextSQL is the SQL statement that writes the words of an event.
func (l layout) insertTextSQL() string {
	return fmt.Sprintf("INSERT INTO text (rowid, %s) VALUES (?%s)", quoteNames(l.textColumns), strings.Repeat(", ?", len(l.textColumns)))
}

// quoteNames lists names of columns in SQL.
func quoteNames(columns []string) string {
	quoted := make([]string, len(columns))
	for i, column := range columns {
		quoted[i] = quoteName(column)
	}
	return strings.Join(quoted, ", ")
}

func quoteName(column string) string { return `"` + strings.ReplaceAll(column, `"`, `""`) + `"` }

// location is a column of event, or keys of the tables term or number, for the values of
// a field. The zero value is for an unknown field.
type location struct {
	column  string
	field   string // of keys
	key     string // name of the key
	allKeys bool   // all keys of the field
	numeric bool   // in the table number
	single  bool   // an event has at most one value
}

func (l layout) locate(f kql.Field) location {
	found := l.locateKeys(f)
	found.numeric = f.Type == kql.Long || f.Type == kql.Double || f.Type == kql.Date
	return found
}

func (l layout) locateKeys(f kql.Field) location {
	if root, ok := strings.CutSuffix(f.Name, ".*"); ok {
		return location{field: root, allKeys: true}
	}
	if _, known := l.mapped[f.Name]; known {
		return locateMapped(f)
	}
	if f.Parent != "" {
		return location{field: f.Parent, key: strings.TrimPrefix(f.Name, f.Parent+".")}
	}
	root, key, _ := strings.Cut(f.Name, ".")
	if _, known := l.dynamic[root]; known && key != "" {
		return location{field: root, key: key}
	}
	return location{}
}

func locateMapped(f kql.Field) location {
	switch {
	case f.Type == kql.Flattened:
		return location{field: f.Name, allKeys: true}
	case hasTerms(f):
		return location{field: f.Name, single: isSingle(f)}
	default:
		return location{column: f.Name, single: true}
	}
}
