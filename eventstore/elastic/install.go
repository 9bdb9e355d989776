package elastic

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/elastic/go-elasticsearch/v8/esapi"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/schemas"
)

// installer writes and checks the templates and the settings of the data streams.
type installer struct {
	*client
	records   records
	retention retentions
	rules     eventstore.KeepRules
}

// Install writes the index templates of the streams, or upgrades the templates of an
// older Watership. It also updates existing streams: it rolls over a stream with an older
// mapping, since a mapping applies to new indices only, and sets the configured
// retention. It is safe to run again or concurrently.
//
// It changes nothing and returns an error if any of the templates is not Watership's or
// is of a newer version.
func (i *installer) Install(ctx context.Context) error {
	if err := i.checkReplaceable(ctx); err != nil {
		return err
	}
	dialect, err := i.dialect(ctx, "installing the templates")
	if err != nil {
		return err
	}
	for name, body := range map[string][]byte{i.mappingsTemplate(): eventstore.MappingsTemplate(), i.failuresTemplate(): eventstore.FailuresMappingsTemplate()} {
		if body, err = dialect.template(body); err != nil {
			return err
		}
		mappings := esapi.ClusterPutComponentTemplateRequest{Name: name, Body: bytes.NewReader(body)}
		if err := i.requestJSON(ctx, "writing component template "+name, mappings, nil); err != nil {
			return err
		}
	}
	for _, stream := range i.written() {
		if err := i.installStream(ctx, dialect, stream); err != nil {
			return err
		}
	}
	return i.rules.Note(ctx, &i.records)
}

// written returns the streams to which this process writes. Others may be of former rules.
func (i *installer) written() []schemas.Stream {
	return append([]schemas.Stream{schemas.Traffic, schemas.Failures}, i.rules.Streams()...)
}

// retentions are the periods of the streams that have none in their names.
type retentions map[schemas.Stream]string

// of returns the data_retention of a stream; "" is for ever.
func (r retentions) of(stream schemas.Stream) string {
	period, isOwn := stream.Period()
	switch {
	case !isOwn:
		return r[stream]
	case period == 0:
		return ""
	}
	return stream.PeriodName() // in Elasticsearch's units
}

func (i *installer) checkReplaceable(ctx context.Context) error {
	templates, err := i.templates(ctx)
	if err != nil {
		return err
	}
	var problems error
	for _, t := range templates {
		problems = joinErrors(problems, t.checkReplaceable())
	}
	return problems
}

func (i *installer) installStream(ctx context.Context, dialect dialect, stream schemas.Stream) error {
	name := i.dataStream(stream)
	mappings := []string{i.mappingsTemplate()}
	if stream == schemas.Failures {
		mappings = append(mappings, i.failuresTemplate())
	}
	body, err := eventstore.StreamTemplate(name, i.retention.of(stream), mappings...)
	if err != nil {
		return err
	}
	isOpenSearch := dialect.product() == OpenSearch
	if isOpenSearch {
		if err := i.createMissingTemplates(ctx, body); err != nil {
			return err
		}
	}
	if body, err = dialect.template(body); err != nil {
		return err
	}
	request := esapi.IndicesPutIndexTemplateRequest{Name: name, Body: bytes.NewReader(body)}
	if err := i.requestJSON(ctx, "writing index template "+name, request, nil); err != nil {
		return err
	}
	versions, err := i.mappingVersions(ctx, name)
	switch {
	case err != nil:
	case isOpenSearch:
		err = i.createStream(ctx, name)
	default:
		err = i.checkPriority(ctx, name)
	}
	if err != nil || len(versions) == 0 { // no stream yet: the first document creates it
		return err
	}
	if err := i.rollOver(ctx, name, versions); err != nil || isOpenSearch { // whose retention Retain applies
		return err
	}
	return i.setRetention(ctx, name, i.retention.of(stream))
}

// checkPriority checks that a new index of the stream gets Watership's mapping, and not the one
// of another template with a higher priority.
func (i *installer) checkPriority(ctx context.Context, name string) error {
	var response struct {
		Template mappingMeta `json:"template"`
	}
	request := esapi.IndicesSimulateIndexTemplateRequest{Name: name}
	if err := i.requestJSON(ctx, "simulating the templates of "+name, request, &response); err != nil {
		return err
	}
	if metaVersion(response.Template.Mappings.Meta) == 0 {
		return otherTemplate(name)
	}
	return nil
}

func otherTemplate(name string) error {
	return fmt.Errorf("another index template, of a priority above 500, matches %s: narrow its index_patterns or lower its priority", name)
}

// mappingMeta is the part of an index or a template that names its owner.
type mappingMeta struct {
	Mappings struct {
		Meta json.RawMessage `json:"_meta"`
	} `json:"mappings"`
}

// mappingVersions returns the version of each backing index of a stream, 0 for other
// mappings. It is empty for a missing stream.
func (i *installer) mappingVersions(ctx context.Context, name string) (map[string]int, error) {
	operation := "reading the mapping of " + name
	var response map[string]mappingMeta
	request := esapi.IndicesGetMappingRequest{Index: []string{name}, IgnoreUnavailable: new(true)}
	if err := i.requestJSON(ctx, operation, request, &response); err != nil {
		return nil, err
	}
	versions := make(map[string]int, len(response))
	for index, mapping := range response {
		if index == name {
			return nil, fmt.Errorf("%s is an ordinary index, not a data stream: rename or delete it", name)
		}
		versions[index] = metaVersion(mapping.Mappings.Meta)
	}
	return versions, nil
}

// rollOver creates a new index unless one has the current mapping. It goes by the
// indices and not by the templates, so that the next Install completes an interrupted
// one.
func (i *installer) rollOver(ctx context.Context, name string, versions map[string]int) error {
	for _, version := range versions {
		if version >= eventstore.TemplateVersion {
			return nil
		}
	}
	i.logger.Info("rolling over a stream with an older mapping", "stream", name)
	return i.requestJSON(ctx, "rolling over "+name, esapi.IndicesRolloverRequest{Alias: name}, nil)
}

// setRetention sets the retention of an existing stream: the template's applies only to
// new ones.
func (i *installer) setRetention(ctx context.Context, name, retention string) error {
	lifecycle := map[string]any{"enabled": true}
	if retention != "" {
		lifecycle["data_retention"] = retention
	}
	err := i.requestJSON(ctx, "setting the retention of "+name,
		esapi.IndicesPutDataLifecycleRequest{Name: []string{name}, Body: asJSON(lifecycle)}, nil)
	if errorContains(err, "no handler found") { // a distribution without the data streams module
		i.logger.Warn("this Elasticsearch cannot change the retention of an existing stream", "stream", name)
		return nil
	}
	return err
}
