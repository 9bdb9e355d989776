package elastic

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/elastic/go-elasticsearch/v8/esapi"
)

// records are small documents that change, such as subscriptions. See jobs for the name
// of their index. A reading by id needs no refresh, and one of all refreshes: Elasticsearch does not by itself in
// an index that this version creates, since that costs most of what saving a watermark ten times a second does.
type records struct{ documents }

const recordsMapping = `{
	"settings": {"index.number_of_shards": 1, "index.auto_expand_replicas": "0-1", "index.refresh_interval": "-1"},
	"mappings": {
		"_meta": {"managed_by": "watership", "version": 1},
		"dynamic": false,
		"properties": {"kind": {"type": "keyword"}, "id": {"type": "keyword"}, "document": {"type": "object", "enabled": false}}
	}
}`

type record struct {
	Kind     string          `json:"kind"`
	ID       string          `json:"id"`
	Document json.RawMessage `json:"document"`
}

// recordID hashes the id, which may be too long for an _id, or have characters that a path
// cannot, such as the / in the name of a source.
func recordID(kind, id string) string {
	return fmt.Sprintf("%s:%x", kind, sha256.Sum256([]byte(id)))
}

// CreateRecord saves a new JSON document under a kind and an id, and returns its version. It
// changes nothing and returns "" if there is one.
func (r *records) CreateRecord(ctx context.Context, kind, id string, document []byte) (string, error) {
	if err := r.createIndex(ctx); err != nil {
		return "", err
	}
	version, err := r.createDocument(ctx, "creating "+kind+" "+id, recordID(kind, id), record{kind, id, document})
	if errorContains(err, "version_conflict_engine_exception") {
		return "", nil
	}
	return version, err
}

// SaveRecord replaces a record if its version is still the given one, and returns the new
// version. Otherwise it changes nothing and returns "".
func (r *records) SaveRecord(ctx context.Context, kind, id, version string, document []byte) (string, error) {
	current, err := parseVersion(kind, version)
	if err != nil {
		return "", err
	}
	return r.saveDocument(ctx, "saving "+kind+" "+id, recordID(kind, id), current, record{kind, id, document})
}

// DeleteRecord deletes a record if its version is still the given one, and reports whether
// it was.
func (r *records) DeleteRecord(ctx context.Context, kind, id, version string) (bool, error) {
	current, err := parseVersion(kind, version)
	if err != nil {
		return false, err
	}
	seqNo, term := int(current.SeqNo), int(current.PrimaryTerm)
	request := esapi.DeleteRequest{Index: r.index, DocumentID: recordID(kind, id), IfSeqNo: &seqNo, IfPrimaryTerm: &term}
	_, err = r.send(ctx, r.withoutRetries, "deleting "+kind+" "+id, request)
	for _, missing := range []string{"version_conflict_engine_exception", "index_not_found_exception"} {
		if errorContains(err, missing) {
			return false, nil
		}
	}
	return err == nil, err
}

// Record returns the last saved document of a record and its version, or nil.
func (r *records) Record(ctx context.Context, kind, id string) ([]byte, string, error) {
	var found record
	version, err := r.readDocument(ctx, "reading "+kind+" "+id, recordID(kind, id), &found)
	return found.Document, version, err
}

// Records reads all records of a kind that exist when the reading begins, the highest id
// first.
func (r *records) Records(ctx context.Context, kind string) iter.Seq2[[]byte, error] {
	query := map[string]any{"term": map[string]any{"kind": kind}}
	return func(yield func([]byte, error) bool) {
		for h, err := range r.readByID(ctx, fmt.Sprintf("reading %ss", kind), query) {
			var found record
			if err == nil {
				err = json.Unmarshal(h.Source, &found)
			}
			if !yield(found.Document, err) {
				return
			}
		}
	}
}

// documentVersion changes with every change of a document
// (https://www.elastic.co/guide/en/elasticsearch/reference/8.19/optimistic-concurrency-control.html).
type documentVersion struct {
	SeqNo       int64 `json:"_seq_no"`
	PrimaryTerm int64 `json:"_primary_term"`
}

func (p documentVersion) String() string { return fmt.Sprintf("%d.%d", p.PrimaryTerm, p.SeqNo) }

func parseVersion(kind, version string) (documentVersion, error) {
	term, seqNo, _ := strings.Cut(version, ".")
	primaryTerm, err := strconv.ParseInt(term, 10, 64)
	if err != nil {
		return documentVersion{}, fmt.Errorf("%q is no version of a %s", version, kind)
	}
	number, err := strconv.ParseInt(seqNo, 10, 64)
	if err != nil {
		return documentVersion{}, fmt.Errorf("%q is no version of a %s", version, kind)
	}
	return documentVersion{number, primaryTerm}, nil
}

// documents are the documents of one index, each of which changes only from the version
// that its writer has read. The first one creates the index, so that it needs no setup.
type documents struct {
	*client
	index, mapping string
}

// createIndex creates the index unless it exists.
func (d *documents) createIndex(ctx context.Context) error {
	request := esapi.IndicesCreateRequest{Index: d.index, Body: strings.NewReader(d.mapping)}
	_, err := d.send(ctx, d.withoutRetries, "creating index "+d.index, request)
	if errorContains(err, "resource_already_exists_exception") {
		return nil
	}
	return err
}

// createDocument sends the request once: the response to a repeated one would be a conflict
// with itself.
func (d *documents) createDocument(ctx context.Context, operation, id string, document any) (version string, err error) {
	request := esapi.IndexRequest{Index: d.index, DocumentID: id, OpType: "create", Body: asJSON(document)}
	body, err := d.send(ctx, d.withoutRetries, operation, request)
	if err != nil {
		return "", err
	}
	return d.readVersion(operation, body)
}

// saveDocument sends the request once: a repeated one would conflict with itself.
func (d *documents) saveDocument(ctx context.Context, operation, id string, current documentVersion, document any) (version string, err error) {
	seqNo, term := int(current.SeqNo), int(current.PrimaryTerm)
	request := esapi.IndexRequest{Index: d.index, DocumentID: id, IfSeqNo: &seqNo, IfPrimaryTerm: &term, Body: asJSON(document)}
	body, err := d.send(ctx, d.withoutRetries, operation, request)
	if errorContains(err, "version_conflict_engine_exception") {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return d.readVersion(operation, body)
}

func (d *documents) readVersion(operation string, body []byte) (string, error) {
	var version documentVersion
	if err := json.Unmarshal(body, &version); err != nil || version.PrimaryTerm == 0 {
		return "", d.invalidResponse(operation, "gave an answer without a version")
	}
	return version.String(), nil
}

// readDocument reads the latest version of a document, including writes that searches do
// not find yet. The version is "" if none exists. A multi get accepts any id, and distinguishes a
// missing document from a missing index.
func (d *documents) readDocument(ctx context.Context, operation, id string, into any) (version string, err error) {
	var response struct {
		Docs []struct {
			documentVersion
			Found  bool            `json:"found"`
			Error  *cause          `json:"error"`
			Source json.RawMessage `json:"_source"`
		} `json:"docs"`
	}
	docs := []map[string]string{{"_index": d.index, "_id": id}}
	if err := d.requestJSON(ctx, operation, esapi.MgetRequest{Body: asJSON(map[string]any{"docs": docs})}, &response); err != nil {
		return "", err
	}
	if len(response.Docs) != 1 {
		return "", d.invalidResponse(operation, fmt.Sprintf("gave %d documents, not 1", len(response.Docs)))
	}
	switch found := response.Docs[0]; {
	case found.Error != nil && found.Error.Type != "index_not_found_exception":
		return "", d.invalidResponse(operation, "failed: "+found.Error.String())
	case found.Error != nil, !found.Found:
		return "", nil
	default:
		if err := json.Unmarshal(found.Source, into); err != nil {
			return "", d.invalidResponse(operation, "gave a document that cannot be read: "+oneLine(err.Error()))
		}
		return found.String(), nil
	}
}

// documentPageSize is the number of documents in a page; a job can list a thousand failures.
const documentPageSize = 100

// readByID reads all documents that a query finds and that exist when the
// reading begins, the highest id first.
func (d *documents) readByID(ctx context.Context, operation string, query map[string]any) iter.Seq2[hit, error] {
	return func(yield func(hit, error) bool) {
		refresh := esapi.IndicesRefreshRequest{Index: []string{d.index}, IgnoreUnavailable: new(true)}
		if err := d.requestJSON(ctx, operation, refresh, nil); err != nil {
			yield(hit{}, err)
			return
		}
		body := map[string]any{
			"size": documentPageSize, "track_total_hits": false, "sort": []any{sortBy("id", "desc", "keyword")}, "query": query,
		}
		for {
			response, err := d.search(ctx, operation, []string{d.index}, body)
			if err != nil {
				yield(hit{}, err)
				return
			}
			for _, h := range response.Hits {
				if !yield(h, nil) {
					return
				}
			}
			if len(response.Hits) < documentPageSize {
				return
			}
			body["search_after"] = response.Hits[len(response.Hits)-1].Sort
		}
	}
}
