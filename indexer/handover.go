package indexer

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// RabbitMQ never redelivers an acknowledged message. So a redelivered message is
// another one than a stored event of an acknowledged sequence, even if both are equal.

// sequenceRange is the sequences above After, up to UpTo, of events whose messages one
// session acknowledged.
type sequenceRange struct {
	After int64 `json:"after"`
	UpTo  int64 `json:"up_to"`
}

// sequenceRanges are the ranges of one queue, the oldest first.
type sequenceRanges []sequenceRange

func (l sequenceRanges) contains(sequence int64) bool {
	return slices.ContainsFunc(l, func(r sequenceRange) bool { return r.After < sequence && sequence <= r.UpTo })
}

// merge adds ranges. It removes those that end before a sequence, and keeps the newest
// hundred.
func (l sequenceRanges) merge(more sequenceRanges, since int64) sequenceRanges {
	const limit = 100
	all := slices.Concat(l, more)
	slices.SortFunc(all, func(a, b sequenceRange) int { return int(a.After - b.After) })
	joined := all[:0]
	for _, r := range all {
		switch last := len(joined) - 1; {
		case r.UpTo < since:
		case last >= 0 && r.After <= joined[last].UpTo:
			joined[last].UpTo = max(joined[last].UpTo, r.UpTo)
		default:
			joined = append(joined, r)
		}
	}
	return joined[max(0, len(joined)-limit):]
}

// handover is the document that an indexer saves in the store as it stops, for the next
// consumer of the queue.
type handover struct {
	Source       string         `json:"source"`
	Queue        string         `json:"queue"`
	Acknowledged sequenceRanges `json:"acknowledged"`
}

// handoverName hashes the names of source and queue, which may be too long for an id.
func handoverName(source, queue string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(source+"\x00"+queue)))
}

// readHandover returns the ranges of the previous consumer of the queue, which may be
// this indexer.
func readHandover(ctx context.Context, cfg Config, queue string) (sequenceRanges, error) {
	document, err := cfg.Store.Handover(ctx, handoverName(cfg.Source, queue))
	if err != nil || document == nil {
		return nil, err
	}
	var read handover
	if err := json.Unmarshal(document, &read); err != nil {
		cfg.Logger.Warn("ignored the unreadable handover of a former indexer", "queue", queue, "error", err)
	}
	return read.Acknowledged, nil
}

// handoverTimeout bounds the last request of an indexer that stops.
const handoverTimeout = 5 * time.Second

// saveHandover runs before the channel closes, so that the next active consumer finds
// the document. A failure does not stop the shutdown: the next consumer may then store
// equal messages as one event.
func saveHandover(ctx context.Context, cfg Config, queue string, acknowledged sequenceRanges) {
	if len(acknowledged) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), handoverTimeout)
	defer cancel()
	document, err := json.Marshal(handover{cfg.Source, queue, acknowledged})
	if err == nil {
		err = cfg.Store.SaveHandover(ctx, handoverName(cfg.Source, queue), document)
	}
	if err != nil {
		cfg.Logger.Warn("stopped without a handover to the next indexer", "queue", queue, "error", err)
	}
}
