package elastic

import (
	"testing"

	"github.com/watershipmq/watership/eventstore/storetest"
	"github.com/watershipmq/watership/schemas"
)

// TestHealth: the error names an index with an unassigned shard, as after all disks are
// nearly full, and the reason.
func TestHealth(t *testing.T) {
	s := open(t, Config{})
	wantHealthy(t, s)
	if err := s.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantHealthy(t, s)
	create(t, s, eventDocuments(1, 1)...)
	wantHealthy(t, s)
	storetest.UnassignShard(t, serverURL(t), s.dataStream(schemas.Traffic))
	err := s.Health(t.Context())
	wantLine(t, err, ".ds-"+s.dataStream(schemas.Traffic), "shard 0 is on no node", "nowhere")
}

func wantHealthy(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Health(t.Context()); err != nil {
		t.Error(err)
	}
}
