package cli

import (
	"math"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/cli/client"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
)

// queryFilter returns a query as the parameters of an operation.
func queryFilter(node kql.Node) (f eventfilter.QueryFilter) {
	f.Query, f.DSL = client.Split(node)
	return f
}

// wholePage is the limit of a page that has all items, or as many as a server puts on one.
const wholePage = math.MaxInt

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
