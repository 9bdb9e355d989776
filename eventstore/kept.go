package eventstore

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// keptRecord is the kind of the record with the rules by which events are recorded; keptID is its id.
const (
	keptRecord = "retention"
	keptID     = "rules"
)

// KeptBy has the rules by which every process records events.
type KeptBy struct {
	Rules KeepRules `json:"rules"`

	// Since is the event.sequence from which they were applied. Before it, other ones may have been.
	Since int64 `json:"since"`
}

// maxAppliedBefore is the time within which a process notes its rules after it has begun to apply
// them, and notices that another one applies others. Clocks may differ by some of it.
const maxAppliedBefore = 10 * time.Minute

// Note saves the rules of a process that records events. Stores call it when they are
// installed, and every minute. While processes have different rules, each replaces the rules of the other,
// so that Since never passes.
func (rules KeepRules) Note(ctx context.Context, store RecordStore) error {
	var noted KeptBy
	version, err := ReadRecord(ctx, store, keptRecord, keptID, &noted)
	if err != nil {
		return fmt.Errorf("reading the rules of retention: %w", err)
	}
	if isSame, err := sameRules(rules, noted.Rules); err != nil || isSame {
		return err
	}
	noted = KeptBy{rules, time.Now().Add(maxAppliedBefore).UnixMicro()}
	if _, err = SaveRecord(ctx, store, keptRecord, keptID, version, noted); err != nil { // another process may have noted the same
		err = fmt.Errorf("noting the rules of retention: %w", err)
	}
	return err
}

// sameRules compares rules as they are stored.
func sameRules(a, b KeepRules) (bool, error) {
	if len(a) == 0 && len(b) == 0 {
		return true, nil
	}
	ours, err := json.Marshal(a)
	if err != nil {
		return false, fmt.Errorf("comparing the rules of retention: %w", err)
	}
	theirs, err := json.Marshal(b)
	if err != nil {
		return false, fmt.Errorf("comparing the rules of retention: %w", err)
	}
	return bytes.Equal(ours, theirs), nil
}

// ReadKeepRules returns the rules that KeepRules.Note has saved. If it has saved none, Since is in an
// unreachable future.
func ReadKeepRules(ctx context.Context, store RecordReader) (KeptBy, error) {
	kept := KeptBy{Since: math.MaxInt64}
	if _, err := ReadRecord(ctx, store, keptRecord, keptID, &kept); err != nil {
		return kept, fmt.Errorf("reading the rules of retention: %w", err)
	}
	return kept, nil
}
