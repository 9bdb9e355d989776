package transport

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/schemas/tablejson"
)

// The metadata value under EnvelopeKey is a version, the texts of an envelope as
// netstrings, its numbers, and its headers as encoded by tablejson.Append. It is
// written for every message and read for few, so writing is cheap. It stays in
// one process, unless the marshaler of watermill-amqp publishes the metadata.
const envelopeVersion = "1;"

// appendEnvelope appends the envelope without its body, with the given headers.
func appendEnvelope(dst []byte, e *schemas.Envelope, headers amqp.Table) []byte {
	dst = append(dst, envelopeVersion...)
	for _, text := range texts(e) {
		dst = strconv.AppendInt(dst, int64(len(*text)), 10)
		dst = append(dst, ':')
		dst = append(dst, *text...)
	}
	dst = appendNumber(dst, int64(e.Properties.DeliveryMode))
	dst = appendNumber(dst, int64(e.Properties.Priority))
	if !e.Properties.Timestamp.IsZero() {
		dst = strconv.AppendInt(dst, e.Properties.Timestamp.Unix(), 10)
	}
	dst = append(dst, ';')
	return tablejson.Append(dst, headers)
}

func appendNumber(dst []byte, n int64) []byte { return append(strconv.AppendInt(dst, n, 10), ';') }

// parseEnvelope parses the text of appendEnvelope.
func parseEnvelope(text string) (e schemas.Envelope, err error) {
	rest, ok := strings.CutPrefix(text, envelopeVersion)
	if !ok {
		return e, errors.New("unknown version")
	}
	for _, text := range texts(&e) {
		if *text, rest, err = cutText(rest); err != nil {
			return e, err
		}
	}
	if rest, err = parseNumbers(rest, &e.Properties); err != nil {
		return e, err
	}
	if e.Headers, err = tablejson.Parse([]byte(rest)); e.Headers == nil {
		e.Headers = amqp.Table{} // to be added to
	}
	return e, err
}

func cutText(s string) (text, rest string, err error) {
	size, rest, _ := strings.Cut(s, ":")
	n, err := strconv.ParseUint(size, 10, 32)
	if err != nil || n > uint64(len(rest)) {
		return "", "", fmt.Errorf("invalid length %q of a text", size)
	}
	return rest[:n], rest[n:], nil
}

func parseNumbers(s string, p *schemas.Properties) (rest string, err error) {
	parts := strings.SplitN(s, ";", 4)
	if len(parts) != 4 {
		return "", errors.New("truncated")
	}
	mode, err1 := strconv.ParseUint(parts[0], 10, 8)
	priority, err2 := strconv.ParseUint(parts[1], 10, 8)
	p.DeliveryMode, p.Priority = uint8(mode), uint8(priority)
	var err3 error
	if parts[2] != "" {
		var seconds int64
		seconds, err3 = strconv.ParseInt(parts[2], 10, 64)
		p.Timestamp = time.Unix(seconds, 0)
	}
	return parts[3], errors.Join(err1, err2, err3)
}

// texts returns the text fields in their order.
func texts(e *schemas.Envelope) [11]*string {
	p := &e.Properties
	return [...]*string{
		&e.Exchange, &e.RoutingKey,
		&p.ContentType, &p.ContentEncoding, &p.CorrelationID, &p.ReplyTo, &p.Expiration,
		&p.MessageID, &p.Type, &p.UserID, &p.AppID,
	}
}
