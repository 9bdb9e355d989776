package elastic

import (
	"testing"

	"github.com/watershipmq/watership/internal/store/storetest"
	"github.com/watershipmq/watership/schemas"
)

// TestHealth: an index whose shard may be on no node, as where the disks of all are
// nearly full, is named with the reason.
func TestHealth(t *testing.T) {
	s := open(t, Config{})
	wantHealthy(t, s)
	if err := s.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantHealthy(t, s)
	create(t, s, eventDocuments(1, 1)...)
	wantHealthy(t, s)
	storetest.LoseShard(t, serverURL(t), s.name(schemas.Traffic))
	err := s.Health(t.Context())
	wantLine(t, err, ".ds-"+s.name(schemas.Traffic), "shard 0 is on no node", "nowhere")
}

func wantHealthy(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Health(t.Context()); err != nil {
		t.Error(err)
	}
}
