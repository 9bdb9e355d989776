package query

// OneOf asks a keyword for any of some values.
type OneOf struct {
	Field  Field
	Values []string
}

// fewValues of a field are looked for one by one, as Kibana does it.
const fewValues = 100

// Together takes out of a resolved node what asks a keyword for one value after
// another, so that a store can look for all of them at once: thousands of ids, one
// by one, are more than it accepts, or than anybody waits for.
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

// keyword is what a node asks a keyword for, where it asks for one whole value.
func (f Fields) keyword(node Node) (field Field, value string, ok bool) {
	is, ok := node.(Is)
	if !ok || is.Field == nil || is.Field.Wild() || is.Value.Pattern.Wild() {
		return Field{}, "", false
	}
	field, known := f.Lookup(is.Field.Text())
	return field, is.Value.Pattern.Text(), known && field.Type == Keyword
}
