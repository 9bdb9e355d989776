package query

// Raw is a condition in a store's own language, such as Elasticsearch's query
// DSL. Parse never makes one, and Resolve leaves it as it is; another store
// must refuse it.
type Raw struct {
	JSON string
}

func (n Raw) String() string { return n.JSON }

func (Raw) node() {}
