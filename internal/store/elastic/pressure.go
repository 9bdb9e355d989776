package elastic

import (
	"strconv"
	"strings"
)

// beyondPressure says whether a request was refused that by itself is larger than all
// that Elasticsearch may hold at once, as its words tell: "... [..., all_bytes=0,
// coordinating_operation_bytes=62916917, max_coordinating_bytes=53687091]". However
// long one waits, it will not be taken
// (https://www.elastic.co/guide/en/elasticsearch/reference/8.19/index-modules-indexing-pressure.html).
func beyondPressure(words string) bool {
	_, after, _ := strings.Cut(words, "_operation_bytes=")
	operation, after, _ := strings.Cut(after, ", max_")
	_, after, _ = strings.Cut(after, "_bytes=")
	most, _, _ := strings.Cut(after, "]")
	size, err := strconv.ParseInt(operation, 10, 64)
	if err != nil {
		return false
	}
	bound, err := strconv.ParseInt(most, 10, 64)
	return err == nil && size > bound
}
