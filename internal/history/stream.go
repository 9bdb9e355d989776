package history

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas"
)

// Stream is a page of the messages of a stream, each once, with the result of
// comparing the versions of the stream.
type Stream struct {
	ID      string `json:"id"`
	Order   string `json:"order" enum:"version,sequence" doc:"Of the messages: by version if any has one, with those without at the end; else by sequence"`
	Total   int    `json:"total" doc:"Number of messages of the whole stream"`
	Without int    `json:"without_version" doc:"Number of those that have no version, in a stream with versions"`

	Gaps     []VersionGap    `json:"gaps" nullable:"false" doc:"Versions between those of the stream that no message has, at most 1000 ranges"`
	Doubles  []DoubleVersion `json:"doubles" nullable:"false" doc:"Versions that several messages have, at most 1000"`
	Reversed int             `json:"reversed" doc:"Number of messages that were recorded before the message of the version before"`
	Untapped int             `json:"untapped" doc:"Number of messages that no tap recorded: their place in the order is that of their first event"`

	Messages []StreamMessage `json:"messages" nullable:"false"`
	More     bool            `json:"more" doc:"The stream has more events than are read; the rest is not in it"`
	Limited  bool            `json:"limited" doc:"The caller may not see all queues and exchanges: gaps may be what it does not see"`
}

// VersionGap is a range of versions that no message has.
type VersionGap struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// DoubleVersion is a version that several messages have.
type DoubleVersion struct {
	Version      int64    `json:"version"`
	Fingerprints []string `json:"fingerprints" nullable:"false" doc:"Of the messages, at most 10"`
}

// StreamMessage is a message of a stream, with what became of it.
type StreamMessage struct {
	Version     *int64    `json:"version,omitempty" doc:"In the stream, as its publisher counts"`
	Sequence    int64     `json:"sequence" doc:"Of its published event, else of its first: its place in the order in which messages were recorded"`
	Time        time.Time `json:"time" doc:"Of its first event"`
	Fingerprint string    `json:"fingerprint"`
	MessageID   string    `json:"message_id,omitempty"`
	Exchange    string    `json:"exchange"`
	RoutingKey  string    `json:"routing_key"`
	Type        string    `json:"type,omitempty"`
	ByPriority  bool      `json:"by_priority,omitempty" doc:"It has a priority, by which RabbitMQ may have delivered its copy before those of messages that were published earlier"`
	Queues      []AtQueue `json:"queues" nullable:"false" doc:"What became of it: its state at each queue that reported about it"`
}

// Limits of a stream.
const (
	MaxStreamEvents = 50_000
	MaxStreamPage   = 500
	maxVersions     = 1000
	maxDoubles      = 10
)

// StreamQuery returns the query for the events of a stream.
func StreamQuery(id string) kql.Node { return kql.FieldIs("watership.stream.id", id) }

// NoStreamError reports that no message has a stream.
type NoStreamError struct {
	ID     string
	Within bool // only a part of the stream was asked for
}

// Error implements error.
func (e *NoStreamError) Error() string {
	if e.Within {
		return fmt.Sprintf("no message of the stream %q is within the time and the version that were asked for", e.ID)
	}
	return fmt.Sprintf("no message is of the stream %q: the setting streams says where messages have theirs", e.ID)
}

// StreamPage selects a page of a stream.
type StreamPage struct {
	ID     string
	Cursor StreamCursor // of the page before; zero: from the beginning
	Limit  int          // messages; 0: all of them

	// Within limits the stream to the events that match, such as those before a time; nil: all of them.
	Within kql.Node

	// Kept is how long the store keeps published messages; 0: for ever. A gap after an older
	// message is not reported, since the messages may have been removed.
	Kept time.Duration

	MaxEvents int // of the stream that are read; 0: MaxStreamEvents
}

// StreamCursor is the place of a message in a stream.
type StreamCursor struct {
	UpTo        int64  `json:"up_to,omitempty"` // sequence of the newest event of the first page
	Version     int64  `json:"version,omitempty"`
	Sequence    int64  `json:"sequence,omitempty"`
	Fingerprint string `json:"fingerprint,omitempty"`
}

// FindStream returns a page of a stream, and the cursor of the next page; zero: this is the
// last.
func FindStream(ctx context.Context, store CheckedStore, page StreamPage, reporters Reporters) (Stream, StreamCursor, error) {
	read := streamReader{store: store, entries: map[string]*streamEntry{}}
	if err := read.index(ctx, page); err != nil {
		return Stream{}, StreamCursor{}, err
	}
	if err := read.removeCopies(ctx); err != nil {
		return Stream{}, StreamCursor{}, err
	}
	if len(read.entries) == 0 && page.Cursor == (StreamCursor{}) {
		if err := store.Check(ctx); err != nil {
			return Stream{}, StreamCursor{}, err
		}
		return Stream{}, StreamCursor{}, &NoStreamError{page.ID, page.Within != nil}
	}
	entries := slices.SortedFunc(maps.Values(read.entries), (*streamEntry).compare)
	s := Stream{ID: page.ID, Total: len(entries), More: read.more, Order: "sequence"}
	s.checkVersions(entries, page.Kept)
	entries, next := read.cut(entries, page)
	var err error
	s.Messages, err = read.messages(ctx, entries, reporters)
	return s, next, err
}

// streamEntry is a message of a stream.
type streamEntry struct {
	fingerprint string
	stream      schemas.MessageStream
	sequence    int64     // of its published event, else of its first
	published   bool      // it has a published event that is of no replay
	time        time.Time // of its earliest event
	replayOf    string    // set while every event is of a replay: the id of the event that it repeats
}

// place is what messages are sorted by first: the version; those without one come last.
func (e *streamEntry) place() int64 {
	if e.stream.HasVersion {
		return e.stream.Version
	}
	return math.MaxInt64
}

func (e *streamEntry) compare(other *streamEntry) int {
	return cmp.Or(cmp.Compare(e.place(), other.place()), cmp.Compare(e.sequence, other.sequence), cmp.Compare(e.fingerprint, other.fingerprint))
}

// streamReader reads a stream.
type streamReader struct {
	store   CheckedStore
	entries map[string]*streamEntry // by fingerprint
	highest int64                   // sequence
	more    bool
}

// index reads which messages the stream has.
func (r *streamReader) index(ctx context.Context, page StreamPage) error {
	most := cmp.Or(page.MaxEvents, MaxStreamEvents)
	query := StreamQuery(page.ID)
	if page.Within != nil {
		query = kql.And{query, page.Within}
	}
	selection := eventstore.Selection{Query: query, UpTo: page.Cursor.UpTo, Limit: most + 1}
	read := 0
	for e, err := range r.store.Summaries(ctx, selection) {
		switch {
		case err != nil:
			return err
		case read == most:
			r.more = true
			return nil
		}
		read++
		r.add(e)
	}
	return ctx.Err()
}

func (r *streamReader) add(e eventstore.EventSummary) {
	r.highest = max(r.highest, e.Sequence)
	entry := r.entries[e.Fingerprint]
	if entry == nil {
		entry = &streamEntry{fingerprint: e.Fingerprint, stream: e.Stream, sequence: e.Sequence, time: e.Time, replayOf: e.ReplayOf}
		r.entries[e.Fingerprint] = entry
	}
	if e.Replay == "" {
		entry.replayOf = ""
	}
	if e.Replay == "" && e.Action == schemas.Published && !entry.published {
		entry.published, entry.sequence = true, e.Sequence // handlers' events come by another queue, which may be faster
	}
	if !entry.stream.HasVersion {
		entry.stream = e.Stream
	}
	if e.Time.Before(entry.time) {
		entry.time = e.Time
	}
}

// removeCopies removes the messages that replays have sent with changes: what became of them
// became of the messages that they repeat.
func (r *streamReader) removeCopies(ctx context.Context) error {
	copies := map[string][]string{} // fingerprints, by the id of the event that they repeat
	for fingerprint, entry := range r.entries {
		if entry.replayOf != "" {
			copies[entry.replayOf] = append(copies[entry.replayOf], fingerprint)
		}
	}
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(copies)), maxIDs) {
		for original, err := range r.store.Summaries(ctx, eventstore.Selection{}, eventstore.FieldIn{Field: "event.id", Values: ids}) {
			if err != nil {
				return err
			}
			for _, fingerprint := range copies[original.EventID] {
				if fingerprint != original.Fingerprint && r.entries[original.Fingerprint] != nil {
					delete(r.entries, fingerprint)
				}
			}
		}
	}
	return ctx.Err()
}

// checkVersions finds gaps, doubles and other mistakes in the versions of the sorted messages.
func (s *Stream) checkVersions(entries []*streamEntry, kept time.Duration) {
	s.Gaps, s.Doubles = []VersionGap{}, []DoubleVersion{}
	var before *streamEntry
	for _, e := range entries {
		if !e.published {
			s.Untapped++
		}
		if !e.stream.HasVersion {
			s.Without++
			continue
		}
		s.Order = "version"
		switch {
		case before == nil:
		case before.stream.Version == e.stream.Version:
			s.addDouble(before, e)
		case e.stream.Version-before.stream.Version > 1 && !before.expired(kept) && len(s.Gaps) < maxVersions:
			s.Gaps = append(s.Gaps, VersionGap{before.stream.Version + 1, e.stream.Version - 1})
		}
		if before != nil && e.sequence < before.sequence {
			s.Reversed++
		}
		before = e
	}
	if s.Order == "sequence" {
		s.Without = 0
	}
}

func (e *streamEntry) expired(kept time.Duration) bool { return kept > 0 && time.Since(e.time) > kept }

func (s *Stream) addDouble(first, e *streamEntry) {
	last := len(s.Doubles) - 1
	switch {
	case last >= 0 && s.Doubles[last].Version == e.stream.Version:
		if d := &s.Doubles[last]; len(d.Fingerprints) < maxDoubles {
			d.Fingerprints = append(d.Fingerprints, e.fingerprint)
		}
	case len(s.Doubles) < maxVersions:
		s.Doubles = append(s.Doubles, DoubleVersion{e.stream.Version, []string{first.fingerprint, e.fingerprint}})
	}
}

// cut returns the messages of a page, and the cursor of the next one.
func (r *streamReader) cut(entries []*streamEntry, page StreamPage) ([]*streamEntry, StreamCursor) {
	upTo := cmp.Or(page.Cursor.UpTo, r.highest)
	if c := page.Cursor; c.Fingerprint != "" {
		after := &streamEntry{fingerprint: c.Fingerprint, sequence: c.Sequence, stream: schemas.MessageStream{Version: c.Version, HasVersion: true}}
		at, found := slices.BinarySearchFunc(entries, after, (*streamEntry).compare)
		if found {
			at++
		}
		entries = entries[at:]
	}
	if page.Limit == 0 || len(entries) <= page.Limit {
		return entries, StreamCursor{}
	}
	last := entries[page.Limit-1]
	return entries[:page.Limit], StreamCursor{UpTo: upTo, Version: last.place(), Sequence: last.sequence, Fingerprint: last.fingerprint}
}
