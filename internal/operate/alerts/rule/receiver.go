package rule

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/operate/alerts/notice"
	"github.com/watershipmq/watership/internal/operate/deliveries"
	"github.com/watershipmq/watership/internal/render/quantity"
)

// receiverRule finds receivers to which requests fail and none succeeds. The alert of a receiver holds until a
// request succeeds, also while there are no requests, unless there are none for long.
type receiverRule struct {
	System
	query kql.Node
	cfg   config.AlertRule
}

// receiverMemory is the place up to which successes were looked for, and the receivers with an alert.
type receiverMemory struct {
	Sequence int64            `json:"sequence"`
	Broken   []brokenReceiver `json:"broken"`
}

type brokenReceiver struct {
	deliveries.Key
	Since time.Time `json:"since,omitzero"`
	Error string    `json:"error,omitempty"`
}

func (r receiverRule) evaluate(ctx context.Context, memory json.RawMessage) ([]notice.Alert, json.RawMessage, error) {
	var m receiverMemory
	if memory != nil {
		if err := json.Unmarshal(memory, &m); err != nil {
			return nil, nil, fmt.Errorf("its memory cannot be read: %w", err)
		}
	}
	complete, err := eventstore.Complete(ctx, r.Store, r.Source)
	if err != nil {
		return nil, nil, err
	}
	if err := r.Store.Refresh(ctx); err != nil { // shows all up to complete
		return nil, nil, err
	}
	finder, found := deliveries.Finder{Store: r.Store}, []notice.Alert{}
	if m.Broken, err = r.stillBroken(ctx, finder, m); err != nil {
		return nil, nil, err
	}
	gone, err := r.gone(ctx, finder, m.Broken)
	if err != nil {
		return nil, nil, err
	}
	m.Broken = slices.DeleteFunc(m.Broken, func(b brokenReceiver) bool {
		if gone[b.Key] {
			a := r.alert(b)
			a.Muted = "since no request to it was recorded in " + quantity.FormatDuration(r.goneAfter())
			found = append(found, a)
		}
		return gone[b.Key]
	})
	if m.Broken, err = r.addBroken(ctx, finder, m.Broken); err != nil {
		return nil, nil, err
	}
	m.Sequence = complete
	next, err := json.Marshal(m)
	for _, b := range m.Broken {
		found = append(found, r.alert(b))
	}
	return found, next, err
}

// stillBroken returns the receivers with an alert to which no request has succeeded since the evaluation before.
func (r receiverRule) stillBroken(ctx context.Context, finder deliveries.Finder, m receiverMemory) ([]brokenReceiver, error) {
	later, err := kqlAfter(m.Sequence)
	if err != nil {
		return nil, err
	}
	mended, err := finder.Succeeded(ctx, r.ofSource(later), keysOf(m.Broken))
	return slices.DeleteFunc(m.Broken, func(b brokenReceiver) bool { return mended[b.Key] }), err
}

func keysOf(broken []brokenReceiver) []deliveries.Key {
	keys := make([]deliveries.Key, len(broken))
	for i, b := range broken {
		keys[i] = b.Key
	}
	return keys
}

// goneAfter is the time without requests after which a receiver counts as gone.
func (r receiverRule) goneAfter() time.Duration { return max(7*24*time.Hour, r.cfg.Within) }

// gone returns the receivers with an alert that have had no request for long.
func (r receiverRule) gone(ctx context.Context, finder deliveries.Finder, broken []brokenReceiver) (map[deliveries.Key]bool, error) {
	recent, err := since(time.Now().Add(-r.goneAfter()))
	if err != nil {
		return nil, err
	}
	keys := keysOf(broken)
	active, err := finder.Attempted(ctx, r.ofSource(recent), keys)
	gone := map[deliveries.Key]bool{}
	for _, key := range keys {
		gone[key] = !active[key]
	}
	return gone, err
}

// addBroken adds the receivers that are broken and have no alert.
func (r receiverRule) addBroken(ctx context.Context, finder deliveries.Finder, known []brokenReceiver) ([]brokenReceiver, error) {
	recent, err := since(time.Now().Add(-r.cfg.Within))
	if err != nil {
		return nil, err
	}
	keys, err := finder.Broken(ctx, r.ofSource(kql.And{r.query, recent}), r.ofSource(recent), maxCounted)
	if err != nil {
		return nil, err
	}
	fresh := 0
	for _, key := range keys {
		if len(known) == maxGroups || fresh == maxFresh {
			break
		}
		if slices.ContainsFunc(known, func(b brokenReceiver) bool { return b.Key == key }) {
			continue
		}
		d := deliveries.ReceiverState{Queue: key.Queue, Name: key.Name}
		if err := finder.DescribeLatest(ctx, &d); err != nil {
			return nil, err
		}
		b := brokenReceiver{Key: key, Error: firstRunes(d.LastAnswer, maxText)}
		if d.BrokenSince != nil {
			b.Since = d.BrokenSince.UTC()
		}
		known, fresh = append(known, b), fresh+1
	}
	return known, nil
}

func (r receiverRule) alert(b brokenReceiver) notice.Alert {
	a := notice.Alert{
		Labels:  map[string]string{"queue": b.Queue, "receiver": b.Name},
		Summary: fmt.Sprintf("no request to receiver %s of queue %s succeeds: %s", b.Name, b.Queue, firstRunes(b.Error, maxSummary)),
		Detail:  "none in " + quantity.FormatDuration(r.cfg.Within),
		Page:    "/receiver?" + url.Values{"queue": {b.Queue}, "receiver": {b.Name}}.Encode(),
	}
	if !b.Since.IsZero() {
		a.Detail += ", since " + b.Since.Format(time.RFC3339)
	}
	return a
}

// kqlAfter returns a query for the events after a sequence.
func kqlAfter(sequence int64) (kql.Node, error) {
	fields, err := eventstore.Fields()
	if err != nil {
		return nil, err
	}
	return kql.Resolve(from("event.sequence", fmt.Sprint(sequence+1)), fields)
}
