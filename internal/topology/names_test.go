package topology

import (
	"slices"
	"testing"

	"github.com/watershipmq/watership/schemas"
)

// TestDeclaredNamesAreThoseOfSchemas checks that metrics and doctor, which list the names
// of schemas.Topology, leave out no queue and no exchange that is declared.
func TestDeclaredNamesAreThoseOfSchemas(t *testing.T) {
	cfg := Config{Topology: schemas.Topology{Prefix: "w", IndexLimit: 10}}
	var queues, exchanges []string
	for _, q := range cfg.queues() {
		queues = append(queues, q.name)
	}
	for _, x := range cfg.exchanges() {
		exchanges = append(exchanges, x.name)
	}
	slices.Sort(queues)
	slices.Sort(exchanges)
	if want := slices.Sorted(slices.Values(cfg.Queues())); !slices.Equal(queues, want) {
		t.Errorf("declared queues %q, schemas has %q", queues, want)
	}
	if want := slices.Sorted(slices.Values(cfg.Exchanges())); !slices.Equal(exchanges, want) {
		t.Errorf("declared exchanges %q, schemas has %q", exchanges, want)
	}
}
