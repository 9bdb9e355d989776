package elastic

import (
	"context"
	"encoding/json"
	"iter"

	"github.com/elastic/go-elasticsearch/v8/esapi"
)

// jobs are the jobs of the replayer. Their index is an ordinary one, since jobs change and
// data streams are append-only. Its name has a dot where the names of the streams
// have a hyphen, so that neither their templates nor a search in STREAM-* include it.
type jobs struct{ documents }

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

// CreateJob saves a new job, a JSON document, and returns its version. It fails if
// the id exists.
func (j *jobs) CreateJob(ctx context.Context, id string, document []byte) (string, error) {
	if err := j.createIndex(ctx); err != nil {
		return "", err
	}
	return j.createDocument(ctx, "creating job "+id, id, job{id, document})
}

// SaveJob replaces a job if its version is still the given one, and returns the new
// version. Otherwise it changes nothing and returns "".
func (j *jobs) SaveJob(ctx context.Context, id, version string, document []byte) (string, error) {
	current, err := parseVersion("job", version)
	if err != nil {
		return "", err
	}
	return j.saveDocument(ctx, "saving job "+id, id, current, job{id, document})
}

// Job returns the last saved document of a job and its version, or nil.
func (j *jobs) Job(ctx context.Context, id string) ([]byte, string, error) {
	var found job
	version, err := j.readDocument(ctx, "reading job "+id, id, &found)
	return found.Job, version, err
}

// KnownJobs returns the ids for which there is a job.
func (j *jobs) KnownJobs(ctx context.Context, ids []string) (map[string]bool, error) {
	const operation = "looking up jobs"
	docs := make([]map[string]any, len(ids))
	for i, id := range ids {
		docs[i] = map[string]any{"_index": j.index, "_id": id, "_source": []string{"id"}}
	}
	var response struct {
		Docs []struct {
			Error  *cause `json:"error"`
			Source job    `json:"_source"`
		} `json:"docs"`
	}
	if err := j.requestJSON(ctx, operation, esapi.MgetRequest{Body: asJSON(map[string]any{"docs": docs})}, &response); err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, found := range response.Docs {
		if found.Error != nil && found.Error.Type != "index_not_found_exception" {
			return nil, j.invalidResponse(operation, "failed: "+found.Error.String())
		}
		if found.Source.ID != "" { // a handover has none
			known[found.Source.ID] = true
		}
	}
	return known, nil
}

// Jobs reads all jobs that exist when the reading begins, the highest id first.
func (j *jobs) Jobs(ctx context.Context) iter.Seq2[[]byte, error] {
	query := map[string]any{"exists": map[string]any{"field": "id"}} // handovers have no id
	return func(yield func([]byte, error) bool) {
		for h, err := range j.readByID(ctx, "reading jobs", query) {
			var found job
			if err == nil {
				err = json.Unmarshal(h.Source, &found)
			}
			if !yield(found.Job, err) {
				return
			}
		}
	}
}

// Handovers are in the index of the jobs, so that the login needs no more privileges.
// Their documents have no field id, by which jobs are found.

func handoverID(name string) string { return "handover:" + name }

// Handover returns the last document that SaveHandover saved under a name, or nil.
func (j *jobs) Handover(ctx context.Context, name string) ([]byte, error) {
	document, _, err := j.Job(ctx, handoverID(name))
	return document, err
}

// SaveHandover saves a JSON document under a name, and replaces the one before.
func (j *jobs) SaveHandover(ctx context.Context, name string, document []byte) error {
	if err := j.createIndex(ctx); err != nil {
		return err
	}
	body := asJSON(map[string]any{"job": json.RawMessage(document)})
	return j.requestJSON(ctx, "saving handover "+name, esapi.IndexRequest{Index: j.index, DocumentID: handoverID(name), Body: body}, nil)
}
