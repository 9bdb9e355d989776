package elastic

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/elastic/go-elasticsearch/v8/esapi"

	"github.com/watershipmq/watership/eventstore"
)

// template describes an installed or missing template.
type template struct {
	kind, name string
	exists     bool
	version    int // 0: not Watership's
}

// metaVersion parses the _meta of a template or a mapping; 0 if it is not Watership's.
// Other programs can write anything there.
func metaVersion(meta json.RawMessage) int {
	var owner struct {
		ManagedBy string `json:"managed_by"`
		Version   int    `json:"version"`
	}
	if err := json.Unmarshal(meta, &owner); err != nil || owner.ManagedBy != "watership" {
		return 0
	}
	return owner.Version
}

// mappingsTemplate is the component template of both index templates.
func (c *client) mappingsTemplate() string { return c.stream + "-mappings" }

// failuresTemplate is the component template with what differs in the stream of failures.
func (c *client) failuresTemplate() string { return c.mappingsTemplate() + "-failures" }

// ignoreMissing maps the error for a missing template to nil.
func ignoreMissing(err error) error {
	if errorContains(err, "resource_not_found_exception") {
		return nil
	}
	return err
}

// templates reads the templates with Watership's names.
func (i *installer) templates(ctx context.Context) ([]template, error) {
	var found []template
	for _, name := range []string{i.mappingsTemplate(), i.failuresTemplate()} {
		component, err := i.componentTemplate(ctx, name)
		if err != nil {
			return nil, err
		}
		found = append(found, component)
	}
	for _, stream := range i.written() {
		index, err := i.indexTemplate(ctx, i.dataStream(stream))
		if err != nil {
			return nil, err
		}
		found = append(found, index)
	}
	return found, nil
}

func (i *installer) componentTemplate(ctx context.Context, name string) (template, error) {
	t := template{kind: "component template", name: name}
	var response struct {
		Templates []struct {
			Template struct {
				Meta json.RawMessage `json:"_meta"`
			} `json:"component_template"`
		} `json:"component_templates"`
	}
	err := i.requestJSON(ctx, "reading "+t.String(), esapi.ClusterGetComponentTemplateRequest{Name: []string{t.name}}, &response)
	if err != nil || len(response.Templates) == 0 {
		return t, ignoreMissing(err)
	}
	t.exists, t.version = true, metaVersion(response.Templates[0].Template.Meta)
	return t, nil
}

func (i *installer) indexTemplate(ctx context.Context, name string) (template, error) {
	t := template{kind: "index template", name: name}
	var response struct {
		Templates []struct {
			Template struct {
				Meta json.RawMessage `json:"_meta"`
			} `json:"index_template"`
		} `json:"index_templates"`
	}
	err := i.requestJSON(ctx, "reading "+t.String(), esapi.IndicesGetIndexTemplateRequest{Name: t.name}, &response)
	if err != nil || len(response.Templates) == 0 {
		return t, ignoreMissing(err)
	}
	t.exists, t.version = true, metaVersion(response.Templates[0].Template.Meta)
	return t, nil
}

func (t template) String() string { return t.kind + " " + t.name }

// checkReplaceable refuses to replace templates that are newer or not Watership's.
func (t template) checkReplaceable() error {
	switch {
	case !t.exists:
		return nil
	case t.version == 0:
		return fmt.Errorf("%s is not Watership's (it has no _meta.managed_by: watership): rename it, or choose another store.stream", t)
	case t.version > eventstore.TemplateVersion:
		return fmt.Errorf("%s has version %d, this Watership knows up to %d: upgrade it", t, t.version, eventstore.TemplateVersion)
	}
	return nil
}

// checkUsable refuses templates that are missing, older or not Watership's. A newer one
// is usable: a newer Watership reads its documents.
func (t template) checkUsable() error {
	switch {
	case !t.exists:
		return fmt.Errorf("%s is missing: run `watership setup`", t)
	case t.version == 0:
		return t.checkReplaceable()
	case t.version < eventstore.TemplateVersion:
		return fmt.Errorf("%s has version %d, this Watership needs %d: run `watership setup`", t, t.version, eventstore.TemplateVersion)
	}
	return nil
}

// Check returns an error unless Elasticsearch answers and all templates are
// usable. It lists all problems. Without an answer the error is a *eventstore.Error.
func (i *installer) Check(ctx context.Context) error {
	templates, err := i.templates(ctx)
	if err != nil {
		return err
	}
	var problems error
	for _, t := range templates {
		problems = joinErrors(problems, t.checkUsable())
	}
	return problems
}
