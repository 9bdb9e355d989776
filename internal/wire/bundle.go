package wire

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/schemas"
)

// headerBundled marks a message whose body is a bundle. Its value is the version of
// the bundle format.
const (
	headerBundled  = "watership-bundled"
	bundledVersion = 1
)

// Bundle collects several events of one action into one message, which costs the
// broker as much as a single event would. The zero value is empty.
//
// The body is gzip (RFC 1952) of one line per event: its document without the
// fields that exist only for searching.
type Bundle struct {
	lines []byte
	len   int
	zip   *gzip.Writer // reused, since a writer is large
}

// Add appends an event without Sequence, Ingested, Source and VHost, which the
// indexer sets.
func (b *Bundle) Add(e schemas.Event) {
	e.Sequence = 0
	b.lines = append(e.AppendExact(b.lines), '\n')
	b.len++
}

// Len returns the number of events in the bundle.
func (b *Bundle) Len() int { return b.len }

// Size returns the size of the events in bytes before compression.
func (b *Bundle) Size() int { return len(b.lines) }

// Publishing returns a message with all events that were added, and empties the
// bundle.
func (b *Bundle) Publishing() amqp.Publishing {
	var zipped bytes.Buffer
	zipped.Grow(len(b.lines) / 6)
	if b.zip == nil {
		b.zip, _ = gzip.NewWriterLevel(nil, gzip.BestSpeed) // BestSpeed is a valid level
	}
	b.zip.Reset(&zipped)
	_, written := b.zip.Write(b.lines)
	if err := errors.Join(written, b.zip.Close()); err != nil {
		panic(fmt.Sprintf("schemas: compressing in memory: %v", err)) // a bytes.Buffer accepts every write
	}
	b.lines, b.len = b.lines[:0], 0
	headers := header.Table{headerVersion: int64(header.Version), headerBundled: int64(bundledVersion)}
	return amqp.Publishing{
		ContentType: "application/x-ndjson", ContentEncoding: "gzip",
		Headers: amqp.Table(headers), DeliveryMode: amqp.Persistent, Body: zipped.Bytes(),
	}
}

// The limits for reading a bundle, far above the size of any bundle that Watership
// writes. A publisher to the exchange of events can make the store keep no more
// than this with one small message.
const (
	mostBundled   = 1000     // events; the replayer sends 100 per bundle
	largestBundle = 16 << 20 // bytes of lines; the replayer stops at 128 KiB
)

// Unbundle returns the events of a bundle from the log, in order and without a
// Sequence. bundled is false for a message that is no bundle or that this version
// cannot read to its end; Lifecycle reads those.
func (dec Decoder) Unbundle(d amqp.Delivery) (events []schemas.Event, bundled bool) {
	headers := header.Table(d.Headers)
	if headers.Int(headerBundled) != bundledVersion || headers.Int(headerVersion) > header.Version || d.Exchange != dec.Topology.Events() ||
		!accepts(dec.Keys, schemas.FromDelivery(d), forEvent(schemas.Action(d.RoutingKey))) {
		return nil, false
	}
	lines, err := unzip(d.Body)
	if err != nil {
		return nil, false
	}
	for line := range bytes.Lines(lines) {
		event, err := schemas.ParseDocument(line)
		if err != nil || !belongs(event, schemas.Action(d.RoutingKey)) || len(events) == mostBundled {
			return nil, false
		}
		event.Redacted, event.Envelope.Redacted, event.Sealed, event.Subjects = false, false, nil, nil // only an indexer redacts
		event.Source, event.VHost, event.TimeSource = dec.Source, dec.VHost, TimeOfEvent
		dec.setStream(&event)
		events = append(events, event)
	}
	return events, len(events) > 0
}

func unzip(body []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	lines, err := io.ReadAll(io.LimitReader(r, largestBundle+1))
	if len(lines) > largestBundle {
		return nil, errors.New("too large")
	}
	return lines, err
}

// belongs reports whether a bundle of this action may hold the event.
func belongs(e schemas.Event, action schemas.Action) bool {
	return e.Action == action && e.Check(e.Time) == nil
}
