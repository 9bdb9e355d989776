package elastic

import (
	"context"
	"time"

	"github.com/elastic/go-elasticsearch/v8/esapi"
)

// Clock returns the time of one of Elasticsearch's nodes.
func (s *Store) Clock(ctx context.Context) (time.Time, error) {
	const operation = "reading the time"
	var response struct {
		Nodes map[string]struct {
			Timestamp int64 `json:"timestamp"`
		} `json:"nodes"`
	}
	request := esapi.NodesStatsRequest{Metric: []string{"jvm"}, FilterPath: []string{"nodes.*.timestamp"}}
	if err := s.requestJSON(ctx, operation, request, &response); err != nil {
		return time.Time{}, err
	}
	for _, node := range response.Nodes {
		return time.UnixMilli(node.Timestamp), nil
	}
	return time.Time{}, s.invalidResponse(operation, "named no node")
}
