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

// Health is an error where an index of our streams has a shard that is on no node and
// cannot be put on one, as where disks are nearly full: documents are not taken, and
// no search answers. The error names one index and says why.
func (s *Store) Health(ctx context.Context) error {
	const doing = "looking for shards that are on no node"
	var answer struct {
		Indices map[string]struct {
			Shards map[string]struct{} `json:"shards"`
		} `json:"indices"`
	}
	request := esapi.IndicesShardStoresRequest{Index: s.both(), Status: []string{"red"}, IgnoreUnavailable: yes(), AllowNoIndices: yes()}
	if err := s.ask(ctx, doing, request, &answer); err != nil {
		return err
	}
	for _, index := range slices.Sorted(maps.Keys(answer.Indices)) {
		for _, shard := range slices.Sorted(maps.Keys(answer.Indices[index].Shards)) {
			number, err := strconv.Atoi(shard)
			if err != nil {
				return s.nonsense(doing, "named a shard "+shard)
			}
			if err := s.explainShard(ctx, index, number); err != nil {
				return err
			}
		}
	}
	return nil
}

// explainShard is nil for a shard that is about to be put on a node, as each is when
// its index is made.
func (s *Store) explainShard(ctx context.Context, index string, shard int) error {
	var answer struct {
		CanAllocate string `json:"can_allocate"`
		Explanation string `json:"allocate_explanation"`
		Nodes       []struct {
			Deciders []struct {
				Explanation string `json:"explanation"`
			} `json:"deciders"`
		} `json:"node_allocation_decisions"`
	}
	body := asJSON(map[string]any{"index": index, "shard": shard, "primary": true})
	err := s.ask(ctx, fmt.Sprintf("asking where shard %d of %s can be", shard, index), esapi.ClusterAllocationExplainRequest{Body: body}, &answer)
	if says(err, strconv.Itoa(http.StatusBadRequest)) { // it is on one by now
		return nil
	}
	if err != nil {
		return err
	}
	switch answer.CanAllocate {
	case "yes", "throttled", "awaiting_info":
		return nil
	}
	reason := answer.Explanation
	for _, node := range answer.Nodes {
		for _, decider := range node.Deciders {
			reason = decider.Explanation
		}
	}
	return fmt.Errorf("index %s takes no documents and answers no search, since its shard %d is on no node: %s", index, shard, oneLine(reason))
}
