package cli

import (
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
)

// queryFilter returns a query as the parameters of an operation.
func queryFilter(sys operations, node kql.Node) (f eventfilter.QueryFilter, err error) {
	f.Query, f.DSL, err = sys.Texts(node)
	return f, err
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
