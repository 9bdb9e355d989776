package elastic

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/elastic/go-elasticsearch/v8/esapi"
)

// jobsIndex is the index of the jobs. It is an ordinary index, since jobs change and
// data streams are append-only. Its name has a dot where the names of the streams
// have a hyphen, so that neither their templates nor a search in STREAM-* include it. The
// first job creates it, so that it needs no setup.
func (s *Store) jobsIndex() string { return s.stream + ".jobs" }

// jobsMapping indexes only the id. It has one shard, since there are few jobs.
const jobsMapping = `{
	"settings": {"index.number_of_shards": 1, "index.auto_expand_replicas": "0-1"},
	"mappings": {
		"_meta": {"managed_by": "watership", "version": 1},
		"dynamic": false,
		"properties": {"id": {"type": "keyword"}, "job": {"type": "object", "enabled": false}}
	}
}`

// job is the document of a job. Job is the replayer's document, which Elasticsearch
// stores without indexing it.
type job struct {
	ID  string          `json:"id"`
	Job json.RawMessage `json:"job"`
}

// documentVersion changes with every change of a document
// (https://www.elastic.co/guide/en/elasticsearch/reference/8.19/optimistic-concurrency-control.html).
type documentVersion struct {
	SeqNo       int64 `json:"_seq_no"`
	PrimaryTerm int64 `json:"_primary_term"`
}

func (p documentVersion) String() string { return fmt.Sprintf("%d.%d", p.PrimaryTerm, p.SeqNo) }

func parseVersion(version string) (documentVersion, error) {
	term, seqNo, _ := strings.Cut(version, ".")
	primaryTerm, err := strconv.ParseInt(term, 10, 64)
	if err != nil {
		return documentVersion{}, fmt.Errorf("%q is no version of a job", version)
	}
	number, err := strconv.ParseInt(seqNo, 10, 64)
	if err != nil {
		return documentVersion{}, fmt.Errorf("%q is no version of a job", version)
	}
	return documentVersion{number, primaryTerm}, nil
}

// CreateJob saves a new job, a JSON document, and returns its version. It fails if
// the id exists.
func (s *Store) CreateJob(ctx context.Context, id string, document []byte) (string, error) {
	if err := s.createJobsIndex(ctx); err != nil {
		return "", err
	}
	// Sent once: the response to a repeated request would be a conflict with itself.
	request := esapi.IndexRequest{Index: s.jobsIndex(), DocumentID: id, OpType: "create", Body: asJSON(job{id, document})}
	body, err := s.send(ctx, s.withoutRetries, "creating job "+id, request)
	if err != nil {
		return "", err
	}
	return s.readVersion("creating job "+id, body)
}

// createJobsIndex creates the index unless it exists.
func (s *Store) createJobsIndex(ctx context.Context) error {
	request := esapi.IndicesCreateRequest{Index: s.jobsIndex(), Body: strings.NewReader(jobsMapping)}
	_, err := s.send(ctx, s.withoutRetries, "creating index "+s.jobsIndex(), request)
	if errorContains(err, "resource_already_exists_exception") {
		return nil
	}
	return err
}

// SaveJob replaces a job if its version is still the given one, and returns the new
// version. Otherwise it changes nothing and returns "".
func (s *Store) SaveJob(ctx context.Context, id, version string, document []byte) (string, error) {
	current, err := parseVersion(version)
	if err != nil {
		return "", err
	}
	seqNo, term := int(current.SeqNo), int(current.PrimaryTerm)
	request := esapi.IndexRequest{
		Index: s.jobsIndex(), DocumentID: id, IfSeqNo: &seqNo, IfPrimaryTerm: &term, Body: asJSON(job{id, document}),
	}
	operation := "saving job " + id
	// Sent once: a repeated request would conflict with itself.
	body, err := s.send(ctx, s.withoutRetries, operation, request)
	if errorContains(err, "version_conflict_engine_exception") {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return s.readVersion(operation, body)
}

func (s *Store) readVersion(operation string, body []byte) (string, error) {
	var version documentVersion
	if err := json.Unmarshal(body, &version); err != nil || version.PrimaryTerm == 0 {
		return "", s.invalidResponse(operation, "gave an answer without a version")
	}
	return version.String(), nil
}

// Job returns the last saved document of a job and its version, or nil.
func (s *Store) Job(ctx context.Context, id string) ([]byte, string, error) {
	operation := "reading job " + id
	var response struct {
		Docs []struct {
			documentVersion
			Found  bool   `json:"found"`
			Error  *cause `json:"error"`
			Source job    `json:"_source"`
		} `json:"docs"`
	}
	// A multi get accepts any id, and tells a missing document from a missing index.
	docs := []map[string]string{{"_index": s.jobsIndex(), "_id": id}}
	if err := s.requestJSON(ctx, operation, esapi.MgetRequest{Body: asJSON(map[string]any{"docs": docs})}, &response); err != nil {
		return nil, "", err
	}
	if len(response.Docs) != 1 {
		return nil, "", s.invalidResponse(operation, fmt.Sprintf("gave %d documents, not 1", len(response.Docs)))
	}
	switch found := response.Docs[0]; {
	case found.Error != nil && found.Error.Type != "index_not_found_exception":
		return nil, "", s.invalidResponse(operation, "failed: "+found.Error.String())
	case found.Error != nil, !found.Found:
		return nil, "", nil
	default:
		return found.Source.Job, found.String(), nil
	}
}

// KnownJobs returns the ids for which there is a job.
func (s *Store) KnownJobs(ctx context.Context, ids []string) (map[string]bool, error) {
	const operation = "looking up jobs"
	docs := make([]map[string]any, len(ids))
	for i, id := range ids {
		docs[i] = map[string]any{"_index": s.jobsIndex(), "_id": id, "_source": []string{"id"}}
	}
	var response struct {
		Docs []struct {
			Error  *cause `json:"error"`
			Source job    `json:"_source"`
		} `json:"docs"`
	}
	if err := s.requestJSON(ctx, operation, esapi.MgetRequest{Body: asJSON(map[string]any{"docs": docs})}, &response); err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, found := range response.Docs {
		if found.Error != nil && found.Error.Type != "index_not_found_exception" {
			return nil, s.invalidResponse(operation, "failed: "+found.Error.String())
		}
		if found.Source.ID != "" { // a handover has none
			known[found.Source.ID] = true
		}
	}
	return known, nil
}

// Jobs reads all jobs that exist when the reading begins, the highest id first.
func (s *Store) Jobs(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		refresh := esapi.IndicesRefreshRequest{Index: []string{s.jobsIndex()}, IgnoreUnavailable: new(true)}
		if err := s.requestJSON(ctx, "refreshing the jobs", refresh, nil); err != nil {
			yield(nil, err)
			return
		}
		for after := ""; ; {
			hits, err := s.jobsPage(ctx, after)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, h := range hits {
				var found job
				err := json.Unmarshal(h.Source, &found)
				if !yield(found.Job, err) {
					return
				}
			}
			if len(hits) < jobsPageSize {
				return
			}
			after = hits[len(hits)-1].ID
		}
	}
}

// jobsPageSize is the number of jobs in a page; each can list a thousand failures.
const jobsPageSize = 100

func (s *Store) jobsPage(ctx context.Context, after string) ([]hit, error) {
	body := map[string]any{
		"size": jobsPageSize, "track_total_hits": false, "sort": []any{sortBy("id", "desc", "keyword")},
		"query": map[string]any{"exists": map[string]any{"field": "id"}}, // handovers have no id
	}
	if after != "" {
		body["search_after"] = []string{after}
	}
	response, err := s.search(ctx, "reading jobs", []string{s.jobsIndex()}, body)
	return response.Hits, err
}
