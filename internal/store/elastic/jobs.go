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

// Jobs are kept in an ordinary index, since they change: data streams only ever
// grow. Its name has a dot where those of the streams have a hyphen, so that
// neither their templates nor a search in STREAM-* takes it for one of them. It
// is made with the first job, so that nothing has to be set up for it.
func (s *Store) jobs() string { return s.stream + ".jobs" }

// jobsMapping indexes only what jobs are found by. It has no more than one
// shard: there are few jobs.
const jobsMapping = `{
	"settings": {"index.number_of_shards": 1, "index.auto_expand_replicas": "0-1"},
	"mappings": {
		"_meta": {"managed_by": "watership", "version": 1},
		"dynamic": false,
		"properties": {"id": {"type": "keyword"}, "job": {"type": "object", "enabled": false}}
	}
}`

// job is the document of a job. Elasticsearch keeps what the replayer wrote and
// does not look into it.
type job struct {
	ID  string          `json:"id"`
	Job json.RawMessage `json:"job"`
}

// place is where Elasticsearch put a document, which tells whether it has
// changed since (https://www.elastic.co/guide/en/elasticsearch/reference/8.19/optimistic-concurrency-control.html).
type place struct {
	SeqNo       int64 `json:"_seq_no"`
	PrimaryTerm int64 `json:"_primary_term"`
}

func (p place) version() string { return fmt.Sprintf("%d.%d", p.PrimaryTerm, p.SeqNo) }

func placeOf(version string) (place, error) {
	term, seqNo, _ := strings.Cut(version, ".")
	primaryTerm, err := strconv.ParseInt(term, 10, 64)
	if err != nil {
		return place{}, fmt.Errorf("%q is no version of a job", version)
	}
	number, err := strconv.ParseInt(seqNo, 10, 64)
	if err != nil {
		return place{}, fmt.Errorf("%q is no version of a job", version)
	}
	return place{number, primaryTerm}, nil
}

// CreateJob keeps a new job, a JSON document, and gives its version. It fails
// where there is a job of that id.
func (s *Store) CreateJob(ctx context.Context, id string, document []byte) (string, error) {
	if err := s.makeJobs(ctx); err != nil {
		return "", err
	}
	// Sent once: the answer to a repetition would be that it is there already.
	request := esapi.IndexRequest{Index: s.jobs(), DocumentID: id, OpType: "create", Body: asJSON(job{id, document})}
	body, err := s.send(ctx, s.once, "keeping job "+id, request)
	if err != nil {
		return "", err
	}
	return s.versionIn("keeping job "+id, body)
}

// makeJobs makes the index unless it is there.
func (s *Store) makeJobs(ctx context.Context) error {
	request := esapi.IndicesCreateRequest{Index: s.jobs(), Body: strings.NewReader(jobsMapping)}
	_, err := s.send(ctx, s.once, "making index "+s.jobs(), request)
	if says(err, "resource_already_exists_exception") {
		return nil
	}
	return err
}

// SaveJob replaces a job, unless it was saved since version was given: then it
// changes nothing and gives "".
func (s *Store) SaveJob(ctx context.Context, id, version string, document []byte) (string, error) {
	was, err := placeOf(version)
	if err != nil {
		return "", err
	}
	seqNo, term := int(was.SeqNo), int(was.PrimaryTerm)
	request := esapi.IndexRequest{
		Index: s.jobs(), DocumentID: id, IfSeqNo: &seqNo, IfPrimaryTerm: &term, Body: asJSON(job{id, document}),
	}
	doing := "saving job " + id
	// Sent once: a repetition of what was done would look like somebody else's.
	body, err := s.send(ctx, s.once, doing, request)
	if says(err, "version_conflict_engine_exception") {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return s.versionIn(doing, body)
}

func (s *Store) versionIn(doing string, body []byte) (string, error) {
	var at place
	if err := json.Unmarshal(body, &at); err != nil || at.PrimaryTerm == 0 {
		return "", s.nonsense(doing, "gave an answer without a version")
	}
	return at.version(), nil
}

// Job gives a job as it was saved last, and its version; nil where there is none.
func (s *Store) Job(ctx context.Context, id string) ([]byte, string, error) {
	doing := "reading job " + id
	var answer struct {
		Docs []struct {
			place
			Found  bool   `json:"found"`
			Error  *cause `json:"error"`
			Source job    `json:"_source"`
		} `json:"docs"`
	}
	// A multi get takes any id, and tells a missing document from a missing index.
	docs := []map[string]string{{"_index": s.jobs(), "_id": id}}
	if err := s.ask(ctx, doing, esapi.MgetRequest{Body: asJSON(map[string]any{"docs": docs})}, &answer); err != nil {
		return nil, "", err
	}
	if len(answer.Docs) != 1 {
		return nil, "", s.nonsense(doing, fmt.Sprintf("gave %d documents, not 1", len(answer.Docs)))
	}
	switch found := answer.Docs[0]; {
	case found.Error != nil && found.Error.Type != "index_not_found_exception":
		return nil, "", s.nonsense(doing, "failed: "+found.Error.String())
	case found.Error != nil, !found.Found:
		return nil, "", nil
	default:
		return found.Source.Job, found.version(), nil
	}
}

// KnownJobs says which jobs there are, of those with some ids.
func (s *Store) KnownJobs(ctx context.Context, ids []string) (map[string]bool, error) {
	const doing = "looking up jobs"
	docs := make([]map[string]any, len(ids))
	for i, id := range ids {
		docs[i] = map[string]any{"_index": s.jobs(), "_id": id, "_source": []string{"id"}}
	}
	var answer struct {
		Docs []struct {
			Error  *cause `json:"error"`
			Source job    `json:"_source"`
		} `json:"docs"`
	}
	if err := s.ask(ctx, doing, esapi.MgetRequest{Body: asJSON(map[string]any{"docs": docs})}, &answer); err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, found := range answer.Docs {
		if found.Error != nil && found.Error.Type != "index_not_found_exception" {
			return nil, s.nonsense(doing, "failed: "+found.Error.String())
		}
		if found.Source.ID != "" { // a handover has none
			known[found.Source.ID] = true
		}
	}
	return known, nil
}

// Jobs gives all jobs that were kept before, the highest id first.
func (s *Store) Jobs(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		refresh := esapi.IndicesRefreshRequest{Index: []string{s.jobs()}, IgnoreUnavailable: yes()}
		if err := s.ask(ctx, "making new jobs visible", refresh, nil); err != nil {
			yield(nil, err)
			return
		}
		for after := ""; ; {
			hits, err := s.jobsBefore(ctx, after)
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
			if len(hits) < jobsAtOnce {
				return
			}
			after = hits[len(hits)-1].ID
		}
	}
}

// jobsAtOnce is how many jobs are read at once; each may list a thousand failures.
const jobsAtOnce = 100

func (s *Store) jobsBefore(ctx context.Context, after string) ([]hit, error) {
	body := map[string]any{
		"size": jobsAtOnce, "track_total_hits": false, "sort": []any{by("id", "desc", "keyword")},
		"query": map[string]any{"exists": map[string]any{"field": "id"}}, // what has none is a handover
	}
	if after != "" {
		body["search_after"] = []string{after}
	}
	answer, err := s.search(ctx, "reading jobs", []string{s.jobs()}, body)
	return answer.Hits, err
}
