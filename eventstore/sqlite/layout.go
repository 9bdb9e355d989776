package sqlite

import (
	"fmt"
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

// hasColumn reports whether a field is a column. It is not if it has a value for each
// attempt, nor if only `audited` events have it, which are few.
func hasColumn(field string) bool {
	switch field {
	case "user.name", "client.address", "event.reason":
		return false
	}
	return !strings.HasPrefix(field, "watership.attempts.") && !strings.HasPrefix(field, "watership.audit.")
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
		if hasColumn(field.Name) {
			l.columnIndex[field.Name] = len(l.columns)
			l.columns = append(l.columns, field.Name)
		}
	}
	return l, nil
}

// insertEventSQL is the SQL statement that writes a row of event.
func (l layout) insertEventSQL() string {
	return fmt.Sprintf("INSERT INTO event (stream, %s) VALUES (?%s) ON CONFLICT DO NOTHING",
		quoteNames(l.columns), strings.Repeat(", ?", len(l.columns)))
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

// location is a column of event, or keys of the table term, for the values of a
// field. The zero value is for an unknown field.
type location struct {
	column  string
	field   string // of keys in the table term
	key     string // name of the key
	allKeys bool   // all keys of the field
}

func (l layout) locate(f kql.Field) location {
	if root, ok := strings.CutSuffix(f.Name, ".*"); ok {
		return location{field: root, allKeys: true}
	}
	if _, known := l.mapped[f.Name]; known {
		return l.locateMapped(f)
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

func (l layout) locateMapped(f kql.Field) location {
	switch _, isColumn := l.columnIndex[f.Name]; {
	case f.Type == kql.Flattened:
		return location{field: f.Name, allKeys: true}
	case isColumn:
		return location{column: f.Name}
	default:
		return location{field: f.Name}
	}
}
