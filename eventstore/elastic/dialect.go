package elastic

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/elastic/go-elasticsearch/v8/esapi"

	"github.com/watershipmq/watership/schemas"
)

// Product is a server with Elasticsearch's API. The zero value is not known yet.
type Product string

const (
	Elasticsearch Product = "elasticsearch"
	OpenSearch    Product = "opensearch"
)

// String returns the name in messages. A server that has not been asked is called Elasticsearch.
func (p Product) String() string {
	if p == OpenSearch {
		return "OpenSearch"
	}
	return "Elasticsearch"
}

// Product returns the name of the server's product, in messages.
func (c *client) Product() string {
	if known := c.product.Load(); known != nil {
		return known.String()
	}
	return Product("").String()
}

// dialect makes the requests that differ between products. No other file knows which product it is.
type dialect interface {
	// template returns the body of a component template or an index template.
	template(body []byte) ([]byte, error)

	// bulk completes a request that creates documents in data streams.
	bulk(request esapi.BulkRequest) esapi.BulkRequest

	openPIT(indices []string) esapi.Request
	closePIT(id string) esapi.Request

	// tieBreak is the last value of the order of documents in a point in time, and onDisk the
	// order in which all of them are read fastest.
	tieBreak() any
	onDisk() []any

	product() Product
}

// dialect returns the dialect of the server, which it asks unless a response has named the product before.
// operation is for the text of an error.
func (c *client) dialect(ctx context.Context, operation string) (dialect, error) {
	if c.product.Load() == nil {
		err := c.requestJSON(ctx, operation, esapi.InfoRequest{}, nil)
		if c.product.Load() == nil {
			return nil, err
		}
	}
	if *c.product.Load() == OpenSearch {
		return openSearchDialect{}, nil
	}
	return elasticsearchDialect{}, nil
}

type elasticsearchDialect struct{}

func (elasticsearchDialect) template(body []byte) ([]byte, error) { return body, nil }

func (elasticsearchDialect) bulk(request esapi.BulkRequest) esapi.BulkRequest {
	request.RequireDataStream = new(true) // else a missing template makes an ordinary index
	return request
}

func (elasticsearchDialect) openPIT(indices []string) esapi.Request {
	return esapi.OpenPointInTimeRequest{Index: indices, IgnoreUnavailable: new(true), KeepAlive: keepAlive}
}

func (elasticsearchDialect) closePIT(id string) esapi.Request {
	return esapi.ClosePointInTimeRequest{Body: asJSON(map[string]any{"id": id})}
}

// shardDoc is unique within a point in time, and has no meaning in another one.
const shardDoc = "_shard_doc"

func (elasticsearchDialect) tieBreak() any { return shardDoc }

// In this order a compressed block is read once.
func (elasticsearchDialect) onDisk() []any    { return []any{shardDoc} }
func (elasticsearchDialect) product() Product { return Elasticsearch }

// openSearchDialect is the one of OpenSearch 2.19 and 3.
type openSearchDialect struct{}

// template replaces the type flattened, and leaves out the lifecycle.
func (openSearchDialect) template(body []byte) ([]byte, error) {
	var template map[string]any
	if err := json.Unmarshal(body, &template); err != nil {
		return nil, fmt.Errorf("reading an embedded template: %w", err)
	}
	delete(template, "ignore_missing_component_templates")
	if inner, isObject := template["template"].(map[string]any); isObject {
		delete(inner, "lifecycle")
	}
	replaceFlattened(template)
	return json.Marshal(template)
}

// replaceFlattened replaces the type by flat_object, which has none of its parameters.
func replaceFlattened(value any) {
	object, _ := value.(map[string]any)
	if object["type"] == "flattened" {
		clear(object)
		object["type"] = "flat_object"
	}
	for _, member := range object {
		replaceFlattened(member)
	}
}

func (openSearchDialect) bulk(request esapi.BulkRequest) esapi.BulkRequest { return request }

func (openSearchDialect) openPIT(indices []string) esapi.Request {
	query := url.Values{"keep_alive": {keepAlive}, "ignore_unavailable": {"true"}}
	return openSearchRequest{http.MethodPost, "/" + strings.Join(indices, ",") + "/_search/point_in_time?" + query.Encode(), nil}
}

func (openSearchDialect) closePIT(id string) esapi.Request {
	return openSearchRequest{http.MethodDelete, "/_search/point_in_time", asJSON(map[string]any{"pit_id": []string{id}})}
}

// _seq_no is unique within a shard only: 2.19 has no value that is unique in a point in time.
func (openSearchDialect) tieBreak() any { return "_seq_no" }

// Two documents with the same number and id are one that was written twice.
func (openSearchDialect) onDisk() []any {
	return []any{"_seq_no", sortBy("event.id", "asc", "keyword")}
}

func (openSearchDialect) product() Product { return OpenSearch }

// openSearchRequest is a request that Elasticsearch does not have.
type openSearchRequest struct {
	method, path string
	body         io.Reader
}

// Do implements esapi.Request.
func (r openSearchRequest) Do(ctx context.Context, transport esapi.Transport) (*esapi.Response, error) {
	request, err := http.NewRequestWithContext(ctx, r.method, r.path, r.body)
	if err != nil {
		return nil, err
	}
	if r.body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := transport.Perform(request)
	if err != nil {
		return nil, err
	}
	return &esapi.Response{StatusCode: response.StatusCode, Body: response.Body, Header: response.Header}, nil
}

// createMissingTemplates creates the component templates that an index template ignores while they are missing, without
// settings: in OpenSearch it must not name one that is missing. The operator's is such a template.
func (i *installer) createMissingTemplates(ctx context.Context, indexTemplate []byte) error {
	var template struct {
		Ignored []string `json:"ignore_missing_component_templates"`
	}
	if err := json.Unmarshal(indexTemplate, &template); err != nil {
		return fmt.Errorf("reading an embedded template: %w", err)
	}
	for _, name := range template.Ignored {
		create := esapi.ClusterPutComponentTemplateRequest{Name: name, Body: strings.NewReader(`{"template": {}}`), Create: new(true)}
		err := i.requestJSON(ctx, "writing component template "+name, create, nil)
		if err != nil && !errorContains(err, "already exists") {
			return err
		}
	}
	return nil
}

// createStream creates a data stream unless it exists, and checks that a new index of it gets Watership's mapping.
// Without a stream, OpenSearch makes an ordinary index for a document when the template is missing, and has no
// parameter to prevent it; and it cannot simulate the templates of a stream that exists.
func (i *installer) createStream(ctx context.Context, name string) error {
	err := i.requestJSON(ctx, "creating data stream "+name, esapi.IndicesCreateDataStreamRequest{Name: name}, nil)
	if err != nil && !errorContains(err, "resource_already_exists_exception") {
		return err
	}
	var response struct {
		DataStreams []struct {
			Template string `json:"template"`
		} `json:"data_streams"`
	}
	err = i.requestJSON(ctx, "reading the template of "+name, esapi.IndicesGetDataStreamRequest{Name: []string{name}}, &response)
	if err == nil && (len(response.DataStreams) != 1 || response.DataStreams[0].Template != name) {
		err = otherTemplate(name)
	}
	return err
}

// maxIndexSize is the size from which on a stream gets a new index, as in Elasticsearch's lifecycle.
const maxIndexSize = "50gb"

// maxIndexAge is the age of an index at which a stream gets a new one, as in Elasticsearch's lifecycle.
// An index is deleted as a whole, so that events are kept by up to this time longer.
func maxIndexAge(retention time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case retention == 0 || retention > 90*day:
		return "30d"
	case retention > 14*day:
		return "7d"
	case retention > day:
		return "1d"
	}
	return "1h"
}

// apply does what Elasticsearch's lifecycle does: it rolls streams over, and deletes the indices whose
// last event is older than the retention. It needs noted to be stored, which says what an index had.
func (r *retention) apply(ctx context.Context, indices map[string]backingIndex, noted removals) (removed int64, err error) {
	now, err := r.Clock(ctx)
	if err != nil {
		return 0, err
	}
	created, err := r.creationTimes(ctx)
	if err != nil {
		return 0, err
	}
	for name, index := range indices {
		kept, _ := parseTimeValue(r.retention.of(index.stream)) // Open has checked it
		mark := noted.Indices[name]
		end, hasEnd := created[index.next]
		switch {
		case index.next == "" && len(mark.Highest) > 0:
			err = r.rollOver(ctx, index.stream, maxIndexAge(kept))
		case hasEnd && kept > 0 && mark.Complete && now.Sub(end) > kept:
			var count int64
			count, err = r.deleteIndex(ctx, name)
			removed += count
		}
		if err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// creationTimes returns when the indices of the streams were created, by name.
func (r *retention) creationTimes(ctx context.Context) (map[string]time.Time, error) {
	var response map[string]struct {
		Settings struct {
			Created int64 `json:"index.creation_date,string"` // milliseconds since 1970
		} `json:"settings"`
	}
	request := esapi.IndicesGetSettingsRequest{
		Index: r.dataStreams(), Name: []string{"index.creation_date"}, FlatSettings: new(true), IgnoreUnavailable: new(true),
	}
	if err := r.requestJSON(ctx, "reading the ages of indices", request, &response); err != nil {
		return nil, err
	}
	created := map[string]time.Time{}
	for index, found := range response {
		created[index] = time.UnixMilli(found.Settings.Created)
	}
	return created, nil
}

// rollOver gives a stream a new index if the current one is old or large. The server decides, so that of several
// processes one does.
func (r *retention) rollOver(ctx context.Context, stream schemas.Stream, maxAge string) error {
	name := r.dataStream(stream)
	conditions := map[string]any{"conditions": map[string]any{"max_age": maxAge, "max_size": maxIndexSize}}
	return r.requestJSON(ctx, "rolling over "+name, esapi.IndicesRolloverRequest{Alias: name, Body: asJSON(conditions)}, nil)
}

// deleteIndex returns the number of documents that the index had.
func (r *retention) deleteIndex(ctx context.Context, index string) (int64, error) {
	operation := "deleting index " + index
	response, err := r.search(ctx, operation, []string{index}, map[string]any{"size": 0, "track_total_hits": true})
	if err != nil {
		return 0, err
	}
	err = r.requestJSON(ctx, operation, esapi.IndicesDeleteRequest{Index: []string{index}}, nil)
	if errorContains(err, "index_not_found_exception") { // another process has deleted it
		return 0, nil
	}
	return response.Total, err
}
