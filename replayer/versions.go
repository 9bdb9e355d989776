package replayer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/replayer/internal/inflight"
	"github.com/watershipmq/watership/schemas"
)

// ByVersion is the Order of a job that sends the messages of a stream by their versions. It keeps the recorded order
// but for a message that was recorded before one of its stream with a lower version, which it holds until then. It
// waits for no version that the job has not, and several messages of one version stay in the recorded order.
const ByVersion = "version"

// ErrPartsByVersion refuses what would separate a held message from the one that it waits for.
var ErrPartsByVersion = errors.New("a replay by version sends all of its messages: leave out the limit, the canary and the steps")

// versionOrder is the order of the messages of a job ByVersion.
type versionOrder struct {
	late map[string][]lateMessage // by stream: messages that others are held for, in the order of the scan
	held map[string][]*inFlight   // by stream, by version

	oldest []*inFlight // that were held, in the order of the scan; those before the first that still is are removed
	bytes  int64       // of held messages
}

// lateMessage is one that was recorded after a higher version of its stream.
type lateMessage struct {
	eventstore.Cursor
	lowest int64 // version of this and the later ones
}

// newVersionOrder finds the late messages of a run, by the same decisions as its scan. Messages up to the cursor were
// sent by earlier runs.
func (run *run) newVersionOrder(ctx context.Context, rivals []*Rival) (*versionOrder, error) {
	if run.initial.Order != ByVersion {
		return nil, nil
	}
	scan, err := run.replayer.newScan(ctx, run.initial, rivals)
	if err != nil {
		return nil, err
	}
	v := &versionOrder{late: map[string][]lateMessage{}, held: map[string][]*inFlight{}}
	var passed passedVersions
	for page, err := range scan.pages(ctx, eventstore.Cursor{}) {
		if err != nil {
			return nil, fmt.Errorf("reading the versions: %w", err)
		}
		for i := range page {
			c := &page[i]
			if !c.isCounted() || !isAfter(c.event, run.initial.Cursor) {
				continue
			}
			stream := c.event.Stream
			isLate, err := passed.add(stream)
			if err != nil {
				return nil, err
			}
			if isLate {
				at := eventstore.Cursor{Sequence: c.event.Sequence, EventID: c.event.EventID}
				v.late[stream.ID] = append(v.late[stream.ID], lateMessage{at, stream.Version})
			}
		}
	}
	for _, late := range v.late {
		for i := len(late) - 2; i >= 0; i-- {
			late[i].lowest = min(late[i].lowest, late[i+1].lowest)
		}
	}
	return v, nil
}

// passedVersions are the highest versions of streams, of the messages that a scan has passed.
type passedVersions struct {
	all    map[string]int64
	tooFar map[string]int64                          // of messages that cannot be held until the next one
	recent [inflight.Lookahead]schemas.MessageStream // of the last messages
	count  int
}

// add adds the next message, and reports whether it is late. It returns an error if one would be held for it too long.
func (p *passedVersions) add(stream schemas.MessageStream) (isLate bool, err error) {
	before := &p.recent[p.count%len(p.recent)]
	p.tooFar = withHighest(p.tooFar, *before)
	*before, p.count = stream, p.count+1
	if known, found := p.tooFar[stream.ID]; found && stream.HasVersion && stream.Version < known {
		return true, errTooFarApart(stream.ID, known)
	}
	known, found := p.all[stream.ID]
	p.all = withHighest(p.all, stream)
	return found && stream.HasVersion && stream.Version < known, nil
}

// withHighest adds the version of a message, if it has one, to the highest ones by stream.
func withHighest(highest map[string]int64, stream schemas.MessageStream) map[string]int64 {
	if known, found := highest[stream.ID]; !stream.HasVersion || found && stream.Version <= known {
		return highest
	}
	if highest == nil {
		highest = map[string]int64{}
	}
	highest[stream.ID] = stream.Version
	return highest
}

// hold holds a message if one of its stream with a lower version follows, and reports whether it does.
func (v *versionOrder) hold(m *inFlight) bool {
	if v == nil || m.late || !m.event.Stream.HasVersion || !v.waits(m) {
		return false
	}
	held := append(v.held[m.event.Stream.ID], m)
	slices.SortStableFunc(held, func(a, b *inFlight) int { return cmp.Compare(a.event.Stream.Version, b.event.Stream.Version) })
	v.held[m.event.Stream.ID] = held
	v.oldest, m.isHeld = append(v.oldest, m), true
	v.bytes += m.bytes
	return true
}

func (v *versionOrder) waits(m *inFlight) bool {
	late := v.late[m.event.Stream.ID]
	return len(late) > 0 && late[0].lowest < m.event.Stream.Version
}

// tooMany returns an error if too many messages are held, or one for too long, when the message with this index was read: the
// checkpoint has to pass the oldest.
func (v *versionOrder) tooMany(index int64) error {
	if v == nil {
		return nil
	}
	for len(v.oldest) > 0 && !v.oldest[0].isHeld {
		v.oldest = v.oldest[1:]
	}
	if len(v.oldest) > 0 && (index-v.oldest[0].index >= inflight.Lookahead || v.bytes > inflight.MaxHeldBytes) {
		stream := v.oldest[0].event.Stream
		return errTooFarApart(stream.ID, stream.Version)
	}
	return nil
}

func errTooFarApart(stream string, version int64) error {
	return fmt.Errorf("version %d of stream %s waits for an earlier version that was recorded long after it: only %d messages and %d MiB can be held; "+
		"replay this stream alone, or in the recorded order", version, stream, inflight.Lookahead, inflight.MaxHeldBytes>>20)
}

// passed returns the messages to send after a candidate, in order. A late message that the store has no longer is
// passed with the next one of its stream.
func (v *versionOrder) passed(c *candidate) (ready []*inFlight) {
	if v == nil {
		return nil
	}
	stream := c.event.Stream.ID
	late := v.late[stream]
	if len(late) == 0 {
		return nil
	}
	for len(late) > 0 && (late[0].EventID == c.event.EventID || isAfter(c.event, late[0].Cursor)) {
		late = late[1:]
	}
	v.late[stream] = late
	return v.release(stream)
}

// rest returns the messages that wait for events that the store has no longer.
func (v *versionOrder) rest() (ready []*inFlight) {
	if v == nil {
		return nil
	}
	clear(v.late)
	for _, stream := range slices.Sorted(maps.Keys(v.held)) {
		ready = append(ready, v.release(stream)...)
	}
	return ready
}

func (v *versionOrder) release(stream string) (ready []*inFlight) {
	held := v.held[stream]
	for len(held) > 0 && !v.waits(held[0]) {
		held[0].isHeld = false
		v.bytes -= held[0].bytes
		ready, held = append(ready, held[0]), held[1:]
	}
	if v.held[stream] = held; len(held) == 0 {
		delete(v.held, stream)
	}
	return ready
}
