package elastic

import (
	"context"
	"time"

	"github.com/elastic/go-elasticsearch/v8/esapi"
)

// Clock is what time it is for Elasticsearch: of any of its nodes.
func (s *Store) Clock(ctx context.Context) (time.Time, error) {
	const doing = "asking for the time"
	var answer struct {
		Nodes map[string]struct {
			Timestamp int64 `json:"timestamp"`
		} `json:"nodes"`
	}
	request := esapi.NodesStatsRequest{Metric: []string{"jvm"}, FilterPath: []string{"nodes.*.timestamp"}}
	if err := s.ask(ctx, doing, request, &answer); err != nil {
		return time.Time{}, err
	}
	for _, node := range answer.Nodes {
		return time.UnixMilli(node.Timestamp), nil
	}
	return time.Time{}, s.nonsense(doing, "named no node")
}
