package schemas

import (
	"slices"
	"strconv"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/schemas/internal/flattened"
	"github.com/watershipmq/watership/schemas/internal/headertext"
	"github.com/watershipmq/watership/schemas/internal/jsonappend"
	"github.com/watershipmq/watership/schemas/tablejson"
)

// appendHeaders appends the searchable fields of the headers: all of them as text, and the
// headers on the lists as labels. fields are the sorted fields of the table. It reports whether
// the texts among them are exact.
func (f DocumentFormat) appendHeaders(o *jsonappend.Object, table amqp.Table, fields []tablejson.Field) (exactTexts bool) {
	headers := o.Open("headers")
	exactTexts = headertext.Append(o, fields)
	o.Close(headers)
	labels := o.Open("labels")
	for i, name := range f.Labels {
		if text, ok := headertext.Of(table[name]); ok && !namedBefore(f.Labels, i) {
			o.AnyKey(labelName(name))
			o.Dst = jsonappend.String(o.Dst, header.Shorten(text, flattened.MaxTerm/4))
		}
	}
	o.Close(labels)
	labels = o.Open("numeric_labels")
	for i, name := range f.NumericLabels {
		if number, ok := headertext.Number(table[name]); ok && !namedBefore(f.NumericLabels, i) {
			o.AnyKey(labelName(name))
			o.Dst = strconv.AppendFloat(o.Dst, number, 'g', -1, 64)
		}
	}
	o.Close(labels)
	return exactTexts
}

// HeaderText returns the value of a header as a label has it. A header that is missing, a table or a
// list has none.
func (e Envelope) HeaderText(name string) (text string, ok bool) {
	return headertext.Of(e.Headers[name])
}

// labelName replaces dots, which would make the label an object (ECS labels).
func labelName(header string) string { return strings.ReplaceAll(header, ".", "_") }

// LabelFields returns the full names of the labels that documents of this format
// have, such as labels.tenant.
func (f DocumentFormat) LabelFields() []string {
	var names []string
	for _, header := range f.Labels {
		names = append(names, "labels."+labelName(header))
	}
	for _, header := range f.NumericLabels {
		names = append(names, "numeric_labels."+labelName(header))
	}
	return names
}

// namedBefore reports whether an earlier header has the same label: a duplicate key
// would make the document invalid.
func namedBefore(headers []string, i int) bool {
	return slices.ContainsFunc(headers[:i], func(other string) bool { return labelName(other) == labelName(headers[i]) })
}
