package elastic

import (
	"strconv"
	"strings"
)

// exceedsIndexingPressure reports whether Elasticsearch refused a request that exceeds
// the node's indexing pressure limit by itself, and so will always be refused. It parses
// the error: "... [..., all_bytes=0, coordinating_operation_bytes=62916917,
// max_coordinating_bytes=53687091]"
// (https://www.elastic.co/guide/en/elasticsearch/reference/8.19/index-modules-indexing-pressure.html).
func exceedsIndexingPressure(reason string) bool {
	_, after, _ := strings.Cut(reason, "_operation_bytes=")
	operation, after, _ := strings.Cut(after, ", max_")
	_, after, _ = strings.Cut(after, "_bytes=")
	limit, _, _ := strings.Cut(after, "]")
	size, err := strconv.ParseInt(operation, 10, 64)
	if err != nil {
		return false
	}
	maxSize, err := strconv.ParseInt(limit, 10, 64)
	return err == nil && size > maxSize
}
