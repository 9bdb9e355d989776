package elastic

import (
	"context"
	"net/http"
	"time"
)

// Clock is what time it is for Elasticsearch: of any of its nodes.
func (s *Store) Clock(ctx context.Context) (time.Time, error) {
	const doing = "asking for the time"
	var answer struct {
		Nodes map[string]struct {
			Timestamp int64 `json:"timestamp"`
		} `json:"nodes"`
	}
	stats := request{method: http.MethodGet, path: "/_nodes/stats/jvm", query: options{"filter_path": "nodes.*.timestamp"}}
	if err := s.ask(ctx, doing, stats, &answer); err != nil {
		return time.Time{}, err
	}
	for _, node := range answer.Nodes {
		return time.UnixMilli(node.Timestamp), nil
	}
	return time.Time{}, s.nonsense(doing, "named no node")
}
