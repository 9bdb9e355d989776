package elastic

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/elastic/go-elasticsearch/v8/esapi"

	"github.com/watershipmq/watership/eventstore"
)

// subjects are the keys of subjects. A second index has them, which a snapshot can leave out. Their
// hashes are in the bodies of requests alone.
type subjects struct{ documents }

// subjectsMapping indexes nothing, since keys are read by id. Each deletion counts in a merge, which removes deleted
// documents.
const subjectsMapping = `{
	"settings": {
		"index.number_of_shards": 1, "index.auto_expand_replicas": "0-1", "index.refresh_interval": "-1",
		"index.merge.policy.expunge_deletes_allowed": 0
	},
	"mappings": {
		"_meta": {"managed_by": "watership", "version": 1},
		"dynamic": false,
		"properties": {"key": {"type": "binary"}}
	}
}`

type subjectKey struct {
	Key []byte `json:"key"`
}

// SubjectKeys returns the keys of those subjects that have one, including the latest writes.
func (s *subjects) SubjectKeys(ctx context.Context, of []string) (map[string][]byte, error) {
	const operation = "reading the keys of subjects"
	if len(of) == 0 {
		return nil, nil
	}
	docs := make([]map[string]string, len(of))
	for i, subject := range of {
		docs[i] = map[string]string{"_index": s.index, "_id": subject}
	}
	var response struct {
		Docs []struct {
			ID     string     `json:"_id"`
			Found  bool       `json:"found"`
			Error  *cause     `json:"error"`
			Source subjectKey `json:"_source"`
		} `json:"docs"`
	}
	if err := s.requestJSON(ctx, operation, esapi.MgetRequest{Body: asJSON(map[string]any{"docs": docs})}, &response); err != nil {
		return nil, err
	}
	if len(response.Docs) != len(of) {
		return nil, s.invalidResponse(operation, "did not give every document")
	}
	keys := map[string][]byte{}
	for _, found := range response.Docs {
		switch {
		case found.Error != nil && found.Error.Type != "index_not_found_exception":
			return nil, s.invalidResponse(operation, "failed: "+found.Error.String())
		case found.Found:
			keys[found.ID] = found.Source.Key
		}
	}
	return keys, nil
}

// KeepSubjectKeys keeps keys of subjects that have none, and returns the key that each has then. The first
// creates the index.
func (s *subjects) KeepSubjectKeys(ctx context.Context, keys map[string][]byte) (map[string][]byte, error) {
	const operation = "keeping the keys of subjects"
	if err := s.createIndex(ctx); err != nil {
		return nil, err
	}
	of := slices.Sorted(maps.Keys(keys))
	results, err := s.bulk(ctx, operation, "create", of, keys)
	if err != nil {
		return nil, err
	}
	for _, one := range results {
		if one.Error != nil && one.Error.Type != "version_conflict_engine_exception" {
			return nil, &eventstore.Error{Kind: eventstore.Unavailable, Reason: operation + ": " + one.Error.String()}
		}
	}
	return s.SubjectKeys(ctx, of)
}

// DestroySubjectKeys deletes keys of subjects, and returns the subjects that had one, also of those before an
// error. It merges the index, so that its files do not keep them.
func (s *subjects) DestroySubjectKeys(ctx context.Context, of []string) (destroyed []string, err error) {
	const operation = "destroying the key of a subject"
	found, err := s.SubjectKeys(ctx, of)
	if err != nil {
		return nil, err
	}
	if len(found) > 0 {
		results, err := s.bulk(ctx, operation, "delete", slices.Sorted(maps.Keys(found)), nil)
		if err != nil {
			return nil, err
		}
		var failed error
		for _, one := range results {
			switch {
			case one.Error != nil:
				failed = &eventstore.Error{Kind: eventstore.Unavailable, Reason: operation + ": " + one.Error.String()}
			case one.Result == "deleted":
				destroyed = append(destroyed, one.ID)
			}
		}
		if failed != nil {
			return destroyed, failed
		}
	}
	return destroyed, s.expunge(ctx) // also where a former attempt has only deleted
}

// expunge removes deleted keys from the files of the index. The first flush writes deletions down, so that the
// merge sees all of them, and ends the translog that has the keys; the second removes the files that were merged.
func (s *subjects) expunge(ctx context.Context) error {
	const operation = "removing deleted keys of subjects"
	index := []string{s.index}
	flush := esapi.IndicesFlushRequest{Index: index, Force: new(true), IgnoreUnavailable: new(true)}
	for _, request := range []esapi.Request{
		esapi.IndicesRefreshRequest{Index: index, IgnoreUnavailable: new(true)},
		flush,
		esapi.IndicesForcemergeRequest{Index: index, OnlyExpungeDeletes: new(true), IgnoreUnavailable: new(true)},
		flush,
	} {
		var response struct {
			Shards shards `json:"_shards"`
		}
		if err := s.requestJSON(ctx, operation, request, &response); err != nil {
			return err
		}
		if failed := response.Shards.Failed; failed > 0 {
			return s.invalidResponse(operation, fmt.Sprintf("failed on %d of %d shards", failed, response.Shards.Total))
		}
	}
	return nil
}

type changedKey struct {
	ID     string `json:"_id"`
	Result string `json:"result"`
	Error  *cause `json:"error"`
}

// bulk creates or deletes documents in one request, which it sends once.
func (s *subjects) bulk(ctx context.Context, operation, action string, of []string, keys map[string][]byte) ([]changedKey, error) {
	var body bytes.Buffer
	lines := json.NewEncoder(&body)
	for _, subject := range of {
		err := lines.Encode(map[string]any{action: map[string]string{"_index": s.index, "_id": subject}})
		if key, found := keys[subject]; found && err == nil {
			err = lines.Encode(subjectKey{key})
		}
		if err != nil {
			return nil, err
		}
	}
	response, err := s.send(ctx, s.withoutRetries, operation, esapi.BulkRequest{Body: &body})
	if err != nil {
		return nil, err
	}
	var read struct {
		Items []map[string]changedKey `json:"items"`
	}
	if err := json.Unmarshal(response, &read); err != nil || len(read.Items) != len(of) {
		return nil, s.invalidResponse(operation, "gave an answer without the result of each")
	}
	var results []changedKey
	for _, item := range read.Items {
		results = append(results, item[action])
	}
	return results, nil
}
