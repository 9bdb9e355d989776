package rule

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/operate/alerts/notice"
	"github.com/watershipmq/watership/internal/render/quantity"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/internal/storeread"
	"github.com/watershipmq/watership/schemas"
)

// lagRule finds out that the store is behind: readers cannot see the events of the latest time.
type lagRule struct {
	System
	behind time.Duration
}

// lagMemory notes since when messages wait that no process indexes, or for which the watermark
// does not move. The time that a watermark stands for hides the latter while it is later than
// now, as after a clock that was ahead.
type lagMemory struct {
	Waiting  time.Time `json:"waiting,omitzero"`
	Complete int64     `json:"complete,omitempty"` // watermark at that time; 0: no process indexes
}

// since notes that messages wait with a watermark, and returns for how long they do.
func (m *lagMemory) since(now time.Time, complete int64) time.Duration {
	if m.Waiting.IsZero() || m.Waiting.After(now) || m.Complete != complete {
		m.Waiting, m.Complete = now, complete
	}
	return now.Sub(m.Waiting)
}

func (r lagRule) evaluate(ctx context.Context, memory json.RawMessage) ([]notice.Alert, json.RawMessage, error) {
	var m lagMemory
	if memory != nil {
		if err := json.Unmarshal(memory, &m); err != nil {
			return nil, nil, fmt.Errorf("its memory cannot be read: %w", err)
		}
	}
	queues, err := r.Waiting(ctx)
	if err != nil {
		return nil, nil, err
	}
	messages := 0
	for _, n := range queues {
		messages += n
	}
	watermarks, _, err := eventstore.ReadWatermarks(ctx, r.Store, r.Source)
	if err != nil {
		return nil, nil, err
	}
	now, lag, reason := time.Now().UTC(), time.Duration(0), ""
	complete, isIndexed := watermarks.Bound()
	switch {
	case isIndexed && messages > 0:
		lag, reason = max(now.Sub(time.UnixMicro(complete)), m.since(now, complete)), "indexing is behind"
	case isIndexed:
		m = lagMemory{}
		lag, reason = now.Sub(time.UnixMicro(complete)), "indexing is behind"
	case messages == 0:
		m = lagMemory{}
	default:
		lag, reason = m.since(now, 0), "no process indexes: run watership serve with the role index"
	}
	next, err := json.Marshal(m)
	if err != nil || lag <= r.behind {
		return nil, next, err
	}
	return []notice.Alert{{
		Summary: fmt.Sprintf("the record of messages is %s behind", wording.Duration(lag)),
		Detail:  fmt.Sprintf("%s, with %s waiting; more than %s", reason, wording.Plural(messages, "message"), quantity.FormatDuration(r.behind)),
		Page:    "/",
	}}, next, nil
}

// gapRule finds times of which messages may be missing in the record, since RabbitMQ dropped
// their copies. An alert holds for some time after the gap was recorded.
type gapRule struct {
	System
	within time.Duration
}

const defaultGapAge = time.Hour

func (r gapRule) evaluate(ctx context.Context, _ json.RawMessage) ([]notice.Alert, json.RawMessage, error) {
	if err := r.Store.Refresh(ctx); err != nil {
		return nil, nil, err
	}
	recorded := time.Now().Add(-cmp.Or(r.within, defaultGapAge)) // the event has the time at which the gap began
	selection := eventstore.Selection{
		Query: r.ofSource(kql.FieldIs("event.action", string(schemas.Dropped))), Order: eventstore.BySequence,
		After: eventstore.Cursor{Sequence: recorded.UnixMicro()}, WithoutBody: true,
	}
	var found []notice.Alert
	for event, err := range storeread.Readable(r.Store.Events(ctx, selection)) {
		if err != nil {
			return nil, nil, err
		}
		summary := firstRunes(event.Failure.Message, maxText)
		if event.Failure.Type == "gap" { // else a queue was deleted whose messages are recorded
			summary = "a gap in the record: " + summary
		}
		found = append(found, notice.Alert{
			Labels: map[string]string{"gap": event.EventID}, Summary: summary,
			Page: "/",
		})
	}
	now, err := r.dropping(ctx)
	if now && err == nil {
		found = append(found, notice.Alert{
			Labels: map[string]string{"gap": "now"}, Summary: "copies of messages are being dropped, so that the record gets a gap",
			Detail: fmt.Sprintf("more than tap.limit (%d) wait for the store", r.Topology.IndexLimit), Page: "/",
		})
	}
	return found, nil, err
}

// dropping reports whether RabbitMQ drops copies now: the queue of late copies, to which the
// overflow of the index queue goes, is full.
func (r gapRule) dropping(ctx context.Context) (bool, error) {
	if r.Topology.IndexLimit == 0 {
		return false, nil
	}
	queues, err := r.Waiting(ctx)
	return int64(queues[r.Topology.IndexLate()]) >= r.Topology.IndexLimit, err
}
