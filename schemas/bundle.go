package schemas

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	amqp "github.com/rabbitmq/amqp091-go"
)

// headerBundled says that the body is a bundle. Its value is the version of
// that form.
const (
	headerBundled  = "watership-bundled"
	bundledVersion = 1
)

// Bundle is several events of one action on their way as one message, which
// costs the broker as much as any of them would alone. The zero value is empty.
//
// Its body is gzip (RFC 1952) of a line for each event: its document, without
// what is in that only to be searched.
type Bundle struct {
	lines []byte
	len   int
	zip   *gzip.Writer // which is large, and so is used again
}

// Add takes an event, all of it but Sequence, Ingested, Source and VHost, which
// are the indexer's to say.
func (b *Bundle) Add(e Event) {
	e.Sequence = 0
	b.lines = append(appendKept(b.lines, e), '\n')
	b.len++
}

// Len is how many events there are.
func (b *Bundle) Len() int { return b.len }

// Size is how many bytes they take before they are compressed.
func (b *Bundle) Size() int { return len(b.lines) }

// Publishing is the message of all events that were added. It leaves the bundle
// empty.
func (b *Bundle) Publishing() amqp.Publishing {
	var zipped bytes.Buffer
	zipped.Grow(len(b.lines) / 6)
	if b.zip == nil {
		b.zip, _ = gzip.NewWriterLevel(nil, gzip.BestSpeed) // which is a level
	}
	b.zip.Reset(&zipped)
	_, written := b.zip.Write(b.lines)
	if err := errors.Join(written, b.zip.Close()); err != nil {
		panic(fmt.Sprintf("schemas: compressing in memory: %v", err)) // a bytes.Buffer takes all
	}
	b.lines, b.len = b.lines[:0], 0
	headers := ours{headerVersion: int64(WireVersion), headerBundled: int64(bundledVersion)}
	return amqp.Publishing{
		ContentType: "application/x-ndjson", ContentEncoding: "gzip",
		Headers: amqp.Table(headers), DeliveryMode: amqp.Persistent, Body: zipped.Bytes(),
	}
}

// What is read of a bundle: far more than anybody writes. Whoever may publish to the
// exchange of events makes the store keep no more than that with one small message.
const (
	mostBundled   = 1000     // events; the replayer sends 100 together
	largestBundle = 16 << 20 // bytes of lines; the replayer stops at 128 KiB
)

// Unbundle gives the events of a bundle from the log, in order and without a
// Sequence. It says no to what is none that this version can read to its end,
// which is for Lifecycle.
func (dec Decoder) Unbundle(d amqp.Delivery) (events []Event, bundled bool) {
	headers := ours(d.Headers)
	if headers.int(headerBundled) != bundledVersion || headers.int(headerVersion) > WireVersion || d.Exchange != dec.Topology.Events() ||
		!dec.Keys.signed(FromDelivery(d), forEvent(Action(d.RoutingKey))) {
		return nil, false
	}
	lines, err := unzip(d.Body)
	if err != nil {
		return nil, false
	}
	for line := range bytes.Lines(lines) {
		event, err := ParseDocument(line)
		if err != nil || !event.belongs(Action(d.RoutingKey)) || len(events) == mostBundled {
			return nil, false
		}
		event.Source, event.VHost, event.TimeSource = dec.Source, dec.VHost, TimeOfEvent
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

// belongs says whether it is an event that may have been added to a bundle of
// such events.
func (e Event) belongs(action Action) bool {
	return e.Action == action && e.checkFields() == nil
}
