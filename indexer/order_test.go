package indexer

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/schemas"
)

// farBehind is the number of later messages that may be recorded before a message.
const farBehind = 1000

// Publishers set priorities 0 to 9 while no indexer runs. Quorum queues deliver by priority
// since RabbitMQ 4.0: of two messages that are recorded in another order than they were
// published, one has the mark. Classic queues deliver in the order of publishing.
func TestOrderOfPriorities(t *testing.T) {
	t.Parallel()
	for classic, each := range map[bool]func(*testing.T, func(*testing.T, rabbittest.Broker)){
		false: rabbittest.Each, true: rabbittest.EachKind, // classic queues are alike in every RabbitMQ
	} {
		t.Run(fmt.Sprint("classic ", classic), func(t *testing.T) {
			each(t, func(t *testing.T, b rabbittest.Broker) {
				t.Parallel()
				s := newSystemOf(t, b, schemas.Topology{ClassicIndex: classic})
				recorded := s.recordPriorities(t, classic)
				checkInversions(t, recorded)
				if marks := countMarks(recorded); marks > 0 && (classic || strings.HasPrefix(b.Version, "3.")) {
					t.Errorf("%d of %d events are marked, and the queue has no priorities", marks, len(recorded))
				}
				if !classic {
					return
				}
				for place, e := range recorded {
					if behind := place - e.published; behind > farBehind || behind < -farBehind {
						t.Fatalf("message %d is recorded at %d", e.published, place)
					}
				}
			})
		})
	}
}

// recordedCopy is an event with the place of its message in the order of publishing.
type recordedCopy struct {
	published  int
	byPriority bool
}

// recordPriorities publishes a backlog of messages, indexes it, and returns the events in the
// order of the record.
func (s *system) recordPriorities(t *testing.T, classic bool) (recorded []recordedCopy) {
	t.Helper()
	count := 2 * farBehind
	if os.Getenv("WATERSHIP_TEST_SOAK") != "" {
		count = 10_000
	}
	messages := s.messages("priority", count)
	for i := range messages {
		messages[i].Properties.Priority = uint8(i % 10)
	}
	s.publish(messages...)
	store := openFile(t, filepath.Join(t.TempDir(), "store.db"))
	if err := store.Install(patient(t)); err != nil {
		t.Fatal(err)
	}
	s.start(store, func(cfg *Config) { cfg.Classic = classic })
	rabbittest.Eventually(t, "the events", func() bool {
		n, err := store.Count(patient(t), eventstore.Selection{})
		return err == nil && n >= int64(count)
	})
	for e, err := range store.Events(patient(t), eventstore.Selection{Order: eventstore.BySequence}) {
		if err != nil {
			t.Fatal(err)
		}
		var published int
		if _, err := fmt.Sscanf(e.Envelope.Properties.MessageID, "priority-%d", &published); err != nil {
			t.Fatal(err)
		}
		recorded = append(recorded, recordedCopy{published, e.ByPriority})
	}
	return recorded
}

// checkInversions fails if an event without a mark is recorded after one without a mark that
// was published later.
func checkInversions(t *testing.T, recorded []recordedCopy) {
	t.Helper()
	newest := -1
	for _, e := range recorded {
		switch {
		case e.byPriority:
		case e.published < newest:
			t.Fatalf("message %d is recorded after message %d, and neither is marked", e.published, newest)
		default:
			newest = e.published
		}
	}
}

func countMarks(recorded []recordedCopy) (marks int) {
	for _, e := range recorded {
		if e.byPriority {
			marks++
		}
	}
	return marks
}
