package sqlite

import (
	"fmt"
	"strings"

	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/schemas/query"
)

// layout says where in the file the values of each field are.
type layout struct {
	fields   query.Fields
	known    map[string]query.Field
	families map[string]query.Field // by what is before .*
	columns  []string               // of the table event, that are fields
	column   map[string]int         // their places
	texts    []string               // the columns of the table text
}

// lists begins the names of fields that have a value for each attempt.
const lists = "watership.attempts."

func newLayout(labels []string) (layout, error) {
	fields, err := schemas.Fields()
	if err != nil {
		return layout{}, err
	}
	fields.Labels = labels
	l := layout{fields: fields, known: map[string]query.Field{}, families: map[string]query.Field{}, column: map[string]int{}}
	for _, field := range fields.Known {
		if root, ok := strings.CutSuffix(field.Name, ".*"); ok {
			l.families[root] = field
			continue
		}
		l.known[field.Name] = field
		if field.Type == query.Text {
			l.texts = append(l.texts, field.Name)
		}
		if !strings.HasPrefix(field.Name, lists) {
			l.column[field.Name] = len(l.columns)
			l.columns = append(l.columns, field.Name)
		}
	}
	return l, nil
}

// insert is the statement that writes an event.
func (l layout) insert() string {
	return fmt.Sprintf("INSERT INTO event (stream, %s) VALUES (?%s) ON CONFLICT DO NOTHING",
		names(l.columns), strings.Repeat(", ?", len(l.columns)))
}

// insertTexts is the statement that writes the words of an event.
func (l layout) insertTexts() string {
	return fmt.Sprintf("INSERT INTO text (rowid, %s) VALUES (?%s)", names(l.texts), strings.Repeat(", ?", len(l.texts)))
}

// names are names of columns, in SQL.
func names(columns []string) string {
	quoted := make([]string, len(columns))
	for i, column := range columns {
		quoted[i] = name(column)
	}
	return strings.Join(quoted, ", ")
}

func name(column string) string { return `"` + strings.ReplaceAll(column, `"`, `""`) + `"` }

// place is where the values of a field are: in a column of event, or under keys
// of the table term. With neither there is no such field.
type place struct {
	column string
	field  string // of keys
	name   string // of the key
	all    bool   // every key of the field
}

func (l layout) place(f query.Field) place {
	if root, ok := strings.CutSuffix(f.Name, ".*"); ok {
		return place{field: root, all: true}
	}
	if _, known := l.known[f.Name]; known {
		return l.placeOfKnown(f)
	}
	if f.Parent != "" {
		return place{field: f.Parent, name: strings.TrimPrefix(f.Name, f.Parent+".")}
	}
	root, key, _ := strings.Cut(f.Name, ".")
	if _, known := l.families[root]; known && key != "" {
		return place{field: root, name: key}
	}
	return place{}
}

func (l layout) placeOfKnown(f query.Field) place {
	switch _, column := l.column[f.Name]; {
	case f.Type == query.Flattened:
		return place{field: f.Name, all: true}
	case column:
		return place{column: f.Name}
	default:
		return place{field: f.Name}
	}
}
