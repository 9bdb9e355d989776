package kql

// Raw is a condition in a store's own language, such as Elasticsearch's query DSL.
// Parse never returns one, and Resolve leaves it unchanged. A store with another
// language must refuse it.
type Raw struct {
	JSON string
}

func (n Raw) String() string { return n.JSON }

func (Raw) node() {}
