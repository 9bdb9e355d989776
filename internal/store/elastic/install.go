package elastic

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/elastic/go-elasticsearch/v8/esapi"

	"github.com/watershipmq/watership/schemas"
)

// Install writes the index templates of both streams, or upgrades those that
// an older Watership wrote, and makes streams that are there follow them: one
// whose mapping is older is rolled over, since a mapping holds for new indices
// only, and each gets the retention of the configuration. Running it again, or
// twice at once, does no harm.
//
// It changes nothing and returns an error if any of the templates is not ours
// or is of a newer version.
func (s *Store) Install(ctx context.Context) error {
	if err := s.mayInstall(ctx); err != nil {
		return err
	}
	mappings := esapi.ClusterPutComponentTemplateRequest{Name: s.mappings(), Body: bytes.NewReader(schemas.MappingsTemplate())}
	if err := s.ask(ctx, "writing component template "+s.mappings(), mappings, nil); err != nil {
		return err
	}
	for _, stream := range streams() {
		if err := s.installStream(ctx, stream); err != nil {
			return err
		}
	}
	return nil
}

func streams() []schemas.Stream { return []schemas.Stream{schemas.Traffic, schemas.Failures} }

func (s *Store) mayInstall(ctx context.Context) error {
	templates, err := s.templates(ctx)
	if err != nil {
		return err
	}
	var problems error
	for _, t := range templates {
		problems = and(problems, t.mayReplace())
	}
	return problems
}

func (s *Store) installStream(ctx context.Context, stream schemas.Stream) error {
	name := s.name(stream)
	body, err := schemas.StreamTemplate(name, s.mappings(), s.retention[stream])
	if err != nil {
		return err
	}
	request := esapi.IndicesPutIndexTemplateRequest{Name: name, Body: bytes.NewReader(body)}
	if err := s.ask(ctx, "writing index template "+name, request, nil); err != nil {
		return err
	}
	if err := s.checkEffective(ctx, name); err != nil {
		return err
	}
	versions, err := s.mappingVersions(ctx, name)
	if err != nil || len(versions) == 0 { // no stream yet: the first document makes it
		return err
	}
	if err := s.rollOver(ctx, name, versions); err != nil {
		return err
	}
	return s.retain(ctx, name, s.retention[stream])
}

// checkEffective finds out whether a new index of the stream would get our
// mapping, since somebody's template of a higher priority takes it away.
func (s *Store) checkEffective(ctx context.Context, name string) error {
	var answer struct {
		Template mapped `json:"template"`
	}
	request := esapi.IndicesSimulateIndexTemplateRequest{Name: name}
	if err := s.ask(ctx, "trying the templates of "+name, request, &answer); err != nil {
		return err
	}
	if version(answer.Template.Mappings.Meta) == 0 {
		return fmt.Errorf("another index template, of a priority above 500, takes %s: narrow its index_patterns or lower its priority", name)
	}
	return nil
}

// mapped is an index or a template, as far as its mapping says whose it is.
type mapped struct {
	Mappings struct {
		Meta json.RawMessage `json:"_meta"`
	} `json:"mappings"`
}

// mappingVersions are those of the indices behind a stream; 0 where an index
// has no mapping of ours. It is empty where there is no stream.
func (s *Store) mappingVersions(ctx context.Context, name string) (map[string]int, error) {
	doing := "reading the mapping of " + name
	var answer map[string]mapped
	request := esapi.IndicesGetMappingRequest{Index: []string{name}, IgnoreUnavailable: yes()}
	if err := s.ask(ctx, doing, request, &answer); err != nil {
		return nil, err
	}
	versions := make(map[string]int, len(answer))
	for index, mapping := range answer {
		if index == name {
			return nil, fmt.Errorf("%s is an ordinary index, not a data stream: rename or delete it", name)
		}
		versions[index] = version(mapping.Mappings.Meta)
	}
	return versions, nil
}

// rollOver begins a new index unless one has the mapping already. The mapping
// of the newest tells whether it was done, so an upgrade that was cut short is
// finished by the next.
func (s *Store) rollOver(ctx context.Context, name string, versions map[string]int) error {
	for _, version := range versions {
		if version >= schemas.TemplateVersion {
			return nil
		}
	}
	s.logger.Info("rolling over, for the mapping has changed", "stream", name)
	return s.ask(ctx, "rolling over "+name, esapi.IndicesRolloverRequest{Alias: name}, nil)
}

// retain applies a retention to a stream that is there: the template's holds
// only for streams that are made after it.
func (s *Store) retain(ctx context.Context, name, retention string) error {
	lifecycle := map[string]any{"enabled": true}
	if retention != "" {
		lifecycle["data_retention"] = retention
	}
	err := s.ask(ctx, "setting the retention of "+name,
		esapi.IndicesPutDataLifecycleRequest{Name: []string{name}, Body: asJSON(lifecycle)}, nil)
	if says(err, "no handler found") { // a distribution without the module of data streams
		s.logger.Warn("this Elasticsearch cannot change the retention of a stream that is there", "stream", name)
		return nil
	}
	return err
}
