package elastic

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/elastic/go-elasticsearch/v8/esapi"
)

// Health returns an error if an index of the streams has a shard that cannot be
// allocated to any node, such as when all disks are nearly full: the index then refuses
// documents and searches. The error names one index and the reason.
func (s *Store) Health(ctx context.Context) error {
	const operation = "looking for unassigned shards"
	var response struct {
		Indices map[string]struct {
			Shards map[string]struct{} `json:"shards"`
		} `json:"indices"`
	}
	request := esapi.IndicesShardStoresRequest{Index: s.dataStreams(), Status: []string{"red"}, IgnoreUnavailable: new(true), AllowNoIndices: new(true)}
	if err := s.requestJSON(ctx, operation, request, &response); err != nil {
		return err
	}
	for _, index := range slices.Sorted(maps.Keys(response.Indices)) {
		for _, shard := range slices.Sorted(maps.Keys(response.Indices[index].Shards)) {
			number, err := strconv.Atoi(shard)
			if err != nil {
				return s.invalidResponse(operation, "named a shard "+shard)
			}
			if err := s.explainShard(ctx, index, number); err != nil {
				return err
			}
		}
	}
	return nil
}

// explainShard returns nil for a shard that is about to be allocated, like every shard
// of a new index.
func (s *Store) explainShard(ctx context.Context, index string, shard int) error {
	var response struct {
		CanAllocate string `json:"can_allocate"`
		Explanation string `json:"allocate_explanation"`
		Nodes       []struct {
			Deciders []struct {
				Explanation string `json:"explanation"`
			} `json:"deciders"`
		} `json:"node_allocation_decisions"`
	}
	body := asJSON(map[string]any{"index": index, "shard": shard, "primary": true})
	err := s.requestJSON(ctx, fmt.Sprintf("explaining the allocation of shard %d of %s", shard, index), esapi.ClusterAllocationExplainRequest{Body: body}, &response)
	if errorContains(err, strconv.Itoa(http.StatusBadRequest)) { // it is allocated by now
		return nil
	}
	if err != nil {
		return err
	}
	switch response.CanAllocate {
	case "yes", "throttled", "awaiting_info":
		return nil
	}
	reason := response.Explanation
	for _, node := range response.Nodes {
		for _, decider := range node.Deciders {
			reason = decider.Explanation
		}
	}
	return fmt.Errorf("index %s takes no documents and answers no search, since its shard %d is on no node: %s", index, shard, oneLine(reason))
}
