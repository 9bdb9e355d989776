package sqlite

import (
	"fmt"
	"strings"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
)

// layout maps the fields of documents to the columns and keys of the file.
type layout struct {
	fields  kql.Fields
	mapped  map[string]kql.Field
	dynamic map[string]kql.Field // by the name before .*
	columns []string             // fields that are columns of the table event
	column  map[string]int       // index in columns
	texts   []string             // the columns of the table text
}

// attemptsPrefix begins the names of fields with a value for each attempt.
const attemptsPrefix = "watership.attempts."

func newLayout(labels []string) (layout, error) {
	fields, err := eventstore.Fields()
	if err != nil {
		return layout{}, err
	}
	fields.Labels = labels
	l := layout{fields: fields, mapped: map[string]kql.Field{}, dynamic: map[string]kql.Field{}, column: map[string]int{}}
	for _, field := range fields.Known {
		if root, ok := strings.CutSuffix(field.Name, ".*"); ok {
			l.dynamic[root] = field
			continue
		}
		l.mapped[field.Name] = field
		if field.Type == kql.Text {
			l.texts = append(l.texts, field.Name)
		}
		if !strings.HasPrefix(field.Name, attemptsPrefix) {
			l.column[field.Name] = len(l.columns)
			l.columns = append(l.columns, field.Name)
		}
	}
	return l, nil
}

// insert is the SQL statement that writes a row of event.
func (l layout) insert() string {
	return fmt.Sprintf("INSERT INTO event (stream, %s) VALUES (?%s) ON CONFLICT DO NOTHING",
		quoteNames(l.columns), strings.Repeat(", ?", len(l.columns)))
}

// insertTexts is the SQL statement that writes the words of an event.
func (l layout) insertTexts() string {
	return fmt.Sprintf("INSERT INTO text (rowid, %s) VALUES (?%s)", quoteNames(l.texts), strings.Repeat(", ?", len(l.texts)))
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
	switch _, column := l.column[f.Name]; {
	case f.Type == kql.Flattened:
		return location{field: f.Name, allKeys: true}
	case column:
		return location{column: f.Name}
	default:
		return location{field: f.Name}
	}
}
