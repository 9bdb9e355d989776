package headertext

import "strings"

// TraceID returns the trace id of a W3C traceparent header, "" if it has none
// (https://www.w3.org/TR/trace-context/#traceparent-header).
func TraceID(parent string) string {
	_, rest, _ := strings.Cut(parent, "-")
	id, rest, _ := strings.Cut(rest, "-")
	if len(id) != 32 || strings.Trim(id, "0123456789abcdefABCDEF") != "" || !strings.Contains(rest, "-") {
		return ""
	}
	return id
}
