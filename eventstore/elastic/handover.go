package elastic

import (
	"context"
	"encoding/json"

	"github.com/elastic/go-elasticsearch/v8/esapi"
)

// Handovers are in the index of the jobs, so that the login needs no more privileges.
// Their documents have no field id, by which jobs are found.

func handoverID(name string) string { return "handover:" + name }

// Handover returns the last document that SaveHandover saved under a name, or nil.
func (s *Store) Handover(ctx context.Context, name string) ([]byte, error) {
	document, _, err := s.Job(ctx, handoverID(name))
	return document, err
}

// SaveHandover saves a JSON document under a name, and replaces the one before.
func (s *Store) SaveHandover(ctx context.Context, name string, document []byte) error {
	if err := s.createJobsIndex(ctx); err != nil {
		return err
	}
	body := asJSON(map[string]any{"job": json.RawMessage(document)})
	return s.requestJSON(ctx, "saving handover "+name, esapi.IndexRequest{Index: s.jobsIndex(), DocumentID: handoverID(name), Body: body}, nil)
}
