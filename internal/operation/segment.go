package operation

import (
	"net/url"
	"strings"
)

// Segment escapes a name for one segment of a path. Names of queues and ids of messages may
// be any text, and url.PathEscape leaves the names . and .. as they are, which lead to
// another path.
func Segment(name string) string {
	if name == "." || name == ".." {
		return strings.ReplaceAll(name, ".", "%2E")
	}
	return url.PathEscape(name)
}
