package elastic

import (
	"context"
	"encoding/json"

	"github.com/elastic/go-elasticsearch/v8/esapi"
)

// A handover is kept with the jobs, so that no login needs another right. Its
// document has no id to be found by among them.

func handoverID(name string) string { return "handover:" + name }

// Handover gives the document that SaveHandover kept last under a name, nil where
// there is none.
func (s *Store) Handover(ctx context.Context, name string) ([]byte, error) {
	document, _, err := s.Job(ctx, handoverID(name))
	return document, err
}

// SaveHandover keeps a JSON document under a name, in the place of the one before.
func (s *Store) SaveHandover(ctx context.Context, name string, document []byte) error {
	if err := s.makeJobs(ctx); err != nil {
		return err
	}
	body := asJSON(map[string]any{"job": json.RawMessage(document)})
	return s.ask(ctx, "keeping handover "+name, esapi.IndexRequest{Index: s.jobs(), DocumentID: handoverID(name), Body: body}, nil)
}
