package kql

// OneOf matches a keyword field with any of the values.
type OneOf struct {
	Field  Field
	Values []string
}

// fewValues is the number of values of a field up to which a store searches for
// each separately, as Kibana does.
const fewValues = 100

// Together splits a resolved node into lists of values for one keyword field each,
// and the other nodes. A store can search a list at once: thousands of separate
// conditions, such as ids, exceed its limit or take too long.
func (f Fields) Together(n Or) (lists []OneOf, others Or) {
	values := map[string][]string{}
	for _, node := range n {
		if field, value, ok := f.keyword(node); ok {
			values[field.Name] = append(values[field.Name], value)
		}
	}
	listed := map[string]bool{}
	for _, node := range n {
		field, _, ok := f.keyword(node)
		many := ok && len(values[field.Name]) > fewValues
		switch {
		case !many:
			others = append(others, node)
		case !listed[field.Name]:
			listed[field.Name] = true
			lists = append(lists, OneOf{field, values[field.Name]})
		}
	}
	return lists, others
}

// keyword returns the field and the value of a node that searches a keyword field
// for one whole value.
func (f Fields) keyword(node Node) (field Field, value string, ok bool) {
	is, ok := node.(Is)
	if !ok || is.Field == nil || is.Field.Wild() || is.Value.Pattern.Wild() {
		return Field{}, "", false
	}
	field, known := f.Lookup(is.Field.Text())
	return field, is.Value.Pattern.Text(), known && field.Type == Keyword
}
