package indexer

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// A message that was acknowledged is never delivered again. So the message of a
// redelivery is not that of a stored event whose sequence is within a span, however
// equal the two messages are.

// span is the sequences above After, up to UpTo, that one session gave to events of
// messages which it acknowledged.
type sequenceRange struct {
	After int64 `json:"after"`
	UpTo  int64 `json:"up_to"`
}

// spans are those of one queue, the oldest first.
type sequenceRanges []sequenceRange

func (l sequenceRanges) contains(sequence int64) bool {
	return slices.ContainsFunc(l, func(s sequenceRange) bool { return s.After < sequence && sequence <= s.UpTo })
}

// with adds spans, and leaves out those that end before a sequence, and all but the
// newest ones.
func (l sequenceRanges) merge(more sequenceRanges, since int64) sequenceRanges {
	const most = 100
	all := slices.Concat(l, more)
	slices.SortFunc(all, func(a, b sequenceRange) int { return int(a.After - b.After) })
	joined := all[:0]
	for _, s := range all {
		switch last := len(joined) - 1; {
		case s.UpTo < since:
		case last >= 0 && s.After <= joined[last].UpTo:
			joined[last].UpTo = max(joined[last].UpTo, s.UpTo)
		default:
			joined = append(joined, s)
		}
	}
	return joined[max(0, len(joined)-most):]
}

// handover is what an indexer that stops leaves in the store for the next one.
type handover struct {
	Source       string         `json:"source"`
	Queue        string         `json:"queue"`
	Acknowledged sequenceRanges `json:"acknowledged"`
}

// handoverName is short, however long the names are that it is made of.
func (x *Indexer) handoverName(queue string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(x.cfg.Decoder.Source+"\x00"+queue)))
}

// readHandover gives the spans of the indexer that had the queue before, which may
// be this one.
func (x *Indexer) readHandover(ctx context.Context, queue string) (sequenceRanges, error) {
	document, err := x.cfg.Store.Handover(ctx, x.handoverName(queue))
	if err != nil || document == nil {
		return nil, err
	}
	var read handover
	if err := json.Unmarshal(document, &read); err != nil {
		x.cfg.Logger.Warn("ignored a handover of an indexer that cannot be read", "queue", queue, "error", err)
	}
	return read.Acknowledged, nil
}

// handoverTimeout bounds the last request of an indexer that stops.
const handoverTimeout = 5 * time.Second

// leaveHandover is called before the channel closes: whichever indexer gets the
// queue then finds it. Without it equal messages may be recorded as one, which is no
// reason not to stop.
func (x *Indexer) saveHandover(ctx context.Context, queue string, acknowledged sequenceRanges) {
	if len(acknowledged) == 0 || x.StoreError() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), handoverTimeout)
	defer cancel()
	document, err := json.Marshal(handover{x.cfg.Decoder.Source, queue, acknowledged})
	if err == nil {
		err = x.cfg.Store.SaveHandover(ctx, x.handoverName(queue), document)
	}
	if err != nil {
		x.cfg.Logger.Warn("stopped without a handover to the next indexer", "queue", queue, "error", err)
	}
}
