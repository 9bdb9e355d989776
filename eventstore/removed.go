package eventstore

import (
	"encoding/json"
	"fmt"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas"
)

// RemovedRecord is the kind of the records that tell what retention has removed. Stores write them.
const RemovedRecord = "removed"

// Removed has the highest event.sequence of the events of a source that retention has removed, by
// stream. A reader at a lower position would not notice that they are missing.
type Removed map[schemas.Stream]int64

// ParseRemoved parses a document of a record; nil is a Removed of nothing.
func ParseRemoved(document []byte) (Removed, error) {
	removed := Removed{}
	if document == nil {
		return removed, nil
	}
	if err := json.Unmarshal(document, &removed); err != nil {
		return nil, fmt.Errorf("the record of what retention has removed cannot be read: %w", err)
	}
	return removed, nil
}

// Add notes the sequence of a removed event.
func (r Removed) Add(stream schemas.Stream, sequence int64) { r[stream] = max(r[stream], sequence) }

// UpTo returns the highest sequence of removed events that a query may have matched; 0 if there is
// none. The query is resolved.
func (r Removed) UpTo(query kql.Node) (sequence int64) {
	for stream, highest := range r {
		if CanMatch(query, stream) {
			sequence = max(sequence, highest)
		}
	}
	return sequence
}

// CanMatch reports whether a resolved query may match events of a stream, by the actions
// that the query names. nil matches every event.
func CanMatch(query kql.Node, stream schemas.Stream) bool {
	switch n := query.(type) {
	case kql.And:
		for _, node := range n {
			if !CanMatch(node, stream) {
				return false
			}
		}
	case kql.Or:
		for _, node := range n {
			if CanMatch(node, stream) {
				return true
			}
		}
		return len(n) == 0
	case kql.Is:
		switch field := n.Field.Text(); {
		case field == "watership.quarantined_action":
			return stream == schemas.Failures
		case field == "event.action" && !n.Value.Pattern.Wild():
			return schemas.Action(n.Value.Pattern.Text()).Stream() == stream
		}
	}
	return true
}
