package elastic

import (
	"context"
	"time"

	"github.com/elastic/go-elasticsearch/v8/esapi"
)

// Clock returns the time of one of Elasticsearch's nodes.
func (c *client) Clock(ctx context.Context) (time.Time, error) {
	const operation = "reading the time"
	var response struct {
		Nodes map[string]struct {
			Timestamp int64 `json:"timestamp"`
		} `json:"nodes"`
	}
	request := esapi.NodesStatsRequest{Metric: []string{"jvm"}, FilterPath: []string{"nodes.*.timestamp"}}
	if err := c.requestJSON(ctx, operation, request, &response); err != nil {
		return time.Time{}, err
	}
	for _, node := range response.Nodes {
		return time.UnixMilli(node.Timestamp), nil
	}
	return time.Time{}, c.invalidResponse(operation, "named no node")
}
