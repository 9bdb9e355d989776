package eventstore

import (
	"encoding/json"
	"fmt"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas"
)

// RemovedRecord is the kind of the records that tell what retention has removed. Stores write them.
const RemovedRecord = "removed"

// Marks have the highest event.sequence of the events of a source that retention has removed, by
// stream.
type Marks map[schemas.Stream]int64

// ParseMarks parses a document of a record; nil has no marks.
func ParseMarks(document []byte) (Marks, error) {
	marks := Marks{}
	if document == nil {
		return marks, nil
	}
	if err := json.Unmarshal(document, &marks); err != nil {
		return nil, fmt.Errorf("the record of what retention has removed cannot be read: %w", err)
	}
	return marks, nil
}

// Add notes the sequence of a removed event.
func (m Marks) Add(stream schemas.Stream, sequence int64) { m[stream] = max(m[stream], sequence) }

// Removed says what retention has removed of the events of a source, and which rules told how long
// they were kept. A reader at a position below the marks would not notice that events are missing.
type Removed struct {
	Marks Marks
	Kept  KeptBy
}

// UpTo returns the highest sequence of removed events that a query may have matched; 0 if there is
// none. The query is resolved. Streams that have no such events by the rules count up to the time
// since which the rules were applied.
func (r Removed) UpTo(query kql.Node) (sequence int64) {
	for stream, highest := range r.Marks {
		if !canMatch(query, stream) {
			continue
		}
		if !r.Kept.Rules.CanHold(stream, query) {
			highest = min(highest, r.Kept.Since)
		}
		sequence = max(sequence, highest)
	}
	return sequence
}

// canMatch reports whether a resolved query may match events of a stream, by the actions
// that the query names. The stream of a period has published events alone. nil matches
// every event.
func canMatch(query kql.Node, stream schemas.Stream) bool {
	switch n := query.(type) {
	case kql.And:
		for _, node := range n {
			if !canMatch(node, stream) {
				return false
			}
		}
	case kql.Or:
		for _, node := range n {
			if canMatch(node, stream) {
				return true
			}
		}
		return len(n) == 0
	case kql.Is:
		switch field := n.Field.Text(); {
		case field == "watership.quarantined_action":
			return stream.Base() == schemas.Failures
		case field == "event.action" && !n.Value.Pattern.Wild():
			action := schemas.Action(n.Value.Pattern.Text())
			return action.Stream() == stream.Base() && (stream == stream.Base() || action == schemas.Published)
		}
	}
	return true
}
