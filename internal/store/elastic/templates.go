package elastic

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/elastic/go-elasticsearch/v8/esapi"

	"github.com/watershipmq/watership/schemas"
)

// template is one that is in Elasticsearch, or is not.
type template struct {
	kind, name string
	there      bool
	version    int // 0: not ours
}

// version reads the _meta of a template or a mapping; 0 if it is not ours.
// Anybody may write there whatever they like.
func version(meta json.RawMessage) int {
	var ours struct {
		ManagedBy string `json:"managed_by"`
		Version   int    `json:"version"`
	}
	if err := json.Unmarshal(meta, &ours); err != nil || ours.ManagedBy != "watership" {
		return 0
	}
	return ours.Version
}

// mappings is the component template that both index templates are made of.
func (s *Store) mappings() string { return s.stream + "-mappings" }

// unlessMissing takes the answer that there is no such template for what it is.
func unlessMissing(err error) error {
	if says(err, "resource_not_found_exception") {
		return nil
	}
	return err
}

// templates reads what there is under the names of our three templates.
func (s *Store) templates(ctx context.Context) ([]template, error) {
	found := make([]template, 0, 3)
	component, err := s.componentTemplate(ctx)
	if err != nil {
		return nil, err
	}
	found = append(found, component)
	for _, name := range s.both() {
		index, err := s.indexTemplate(ctx, name)
		if err != nil {
			return nil, err
		}
		found = append(found, index)
	}
	return found, nil
}

func (s *Store) componentTemplate(ctx context.Context) (template, error) {
	t := template{kind: "component template", name: s.mappings()}
	var answer struct {
		Templates []struct {
			Template struct {
				Meta json.RawMessage `json:"_meta"`
			} `json:"component_template"`
		} `json:"component_templates"`
	}
	err := s.ask(ctx, "reading "+t.String(), esapi.ClusterGetComponentTemplateRequest{Name: []string{t.name}}, &answer)
	if err != nil || len(answer.Templates) == 0 {
		return t, unlessMissing(err)
	}
	t.there, t.version = true, version(answer.Templates[0].Template.Meta)
	return t, nil
}

func (s *Store) indexTemplate(ctx context.Context, name string) (template, error) {
	t := template{kind: "index template", name: name}
	var answer struct {
		Templates []struct {
			Template struct {
				Meta json.RawMessage `json:"_meta"`
			} `json:"index_template"`
		} `json:"index_templates"`
	}
	err := s.ask(ctx, "reading "+t.String(), esapi.IndicesGetIndexTemplateRequest{Name: t.name}, &answer)
	if err != nil || len(answer.Templates) == 0 {
		return t, unlessMissing(err)
	}
	t.there, t.version = true, version(answer.Templates[0].Template.Meta)
	return t, nil
}

func (t template) String() string { return t.kind + " " + t.name }

// mayReplace is nil for a template that is ours and not newer, or not there.
func (t template) mayReplace() error {
	switch {
	case !t.there:
		return nil
	case t.version == 0:
		return fmt.Errorf("%s is not Watership's (it has no _meta.managed_by: watership): rename it, or choose another store.stream", t)
	case t.version > schemas.TemplateVersion:
		return fmt.Errorf("%s has version %d, this Watership knows up to %d: upgrade it", t, t.version, schemas.TemplateVersion)
	}
	return nil
}

// mayUse is nil for a template that is there, ours and not older. A newer one
// may be used: its documents are read by those who wrote them.
func (t template) mayUse() error {
	switch {
	case !t.there:
		return fmt.Errorf("%s is missing: run `watership setup`", t)
	case t.version == 0:
		return t.mayReplace()
	case t.version < schemas.TemplateVersion:
		return fmt.Errorf("%s has version %d, this Watership needs %d: run `watership setup`", t, t.version, schemas.TemplateVersion)
	}
	return nil
}

// Check says whether events can be kept: whether Elasticsearch answers and both
// streams have templates that are ours and not older. It names all that is
// wrong. That Elasticsearch does not answer is a *schemas.StoreError.
func (s *Store) Check(ctx context.Context) error {
	templates, err := s.templates(ctx)
	if err != nil {
		return err
	}
	var problems error
	for _, t := range templates {
		problems = and(problems, t.mayUse())
	}
	return problems
}
