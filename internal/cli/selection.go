package cli

import (
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/cli/client"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
)

// queryFilter returns a query as the parameters of an operation.
func queryFilter(sys operations, node kql.Node) (f eventfilter.QueryFilter, err error) {
	f.Query, f.DSL, err = sys.Texts(node)
	return f, err
}

// bodyFilter returns a query as the body of an operation has it. One that names messages or
// groups, too, needs no query.
func bodyFilter(sys operations, node kql.Node, named bool) (f eventfilter.Filter, dsl map[string]any, err error) {
	query, text, err := sys.Texts(node)
	if err != nil {
		return f, nil, err
	}
	if f.Query = query; query == "" && text == "" && !named {
		f.Query = "*"
	}
	dsl, err = client.ObjectOf(text)
	return f, dsl, err
}

// eachPage calls read with the cursor of each page. It returns the cursor of the next one; "": that
// was the last.
func eachPage(read func(cursor string) (next string, err error)) error {
	for cursor := ""; ; {
		next, err := read(cursor)
		if err != nil || next == "" {
			return err
		}
		cursor = next
	}
}
