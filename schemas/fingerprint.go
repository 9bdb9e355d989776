package schemas

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// fingerprintVersion names the encoding below. Another encoding is another version.
const fingerprintVersion = "v1:"

// Fingerprint is what a message is known by: "v1:" and the SHA-256 (in hex) of
// only what no broker and no hop of ours changes, so that the tap's copy, the
// queue's copy and retried and replayed ones have the same. Exchange and
// routing key must be the origin's.
//
// Left out are: expiration, user_id, CC, priority and delivery_mode, which
// cannot travel as they are; headers that begin with "x-" (RabbitMQ's) or
// "watership-" (ours), and BCC; timestamp and timestamp_in_ms where the latter
// is present, since then the broker set both.
func (e Envelope) Fingerprint() string {
	d := digest{sha256.New()}
	d.text(e.Exchange)
	d.text(e.RoutingKey)
	p := e.Properties
	for _, property := range []string{
		p.ContentType, p.ContentEncoding, p.CorrelationID, p.ReplyTo,
		p.MessageID, p.Type, p.AppID,
	} {
		d.text(property)
	}
	d.timestamp(e)
	d.headers(e.Headers)
	d.bytes(e.Body)
	return fingerprintVersion + hex.EncodeToString(d.Sum(nil))
}

// digest hashes a canonical encoding: every value has a tag or a fixed place,
// and everything of variable length is preceded by that length, so that no two
// different messages have the same encoding.
type digest struct{ hash.Hash }

func (d digest) fixed(tag byte, bits uint64) {
	var b [9]byte
	b[0] = tag
	binary.BigEndian.PutUint64(b[1:], bits)
	d.Write(b[:])
}

func (d digest) bytes(b []byte) {
	d.fixed('#', uint64(len(b)))
	d.Write(b)
}

func (d digest) text(s string) { d.bytes([]byte(s)) }

func (d digest) timestamp(e Envelope) {
	_, brokerSet := e.Headers[headerBrokerTime]
	if brokerSet || e.Properties.Timestamp.IsZero() {
		d.fixed('V', 0)
		return
	}
	d.fixed('T', uint64(e.Properties.Timestamp.Unix()))
}

func (d digest) headers(table amqp.Table) {
	kept := maps.Clone(table)
	maps.DeleteFunc(kept, func(name string, _ any) bool { return changesOnTheWay(name) })
	d.table(kept)
}

// changesOnTheWay says whether brokers or we may add, change or remove a header.
func changesOnTheWay(name string) bool {
	return strings.HasPrefix(name, "x-") || strings.HasPrefix(name, headerPrefix) ||
		name == headerCC || name == headerBCC || name == headerBrokerTime
}

func (d digest) table(table amqp.Table) {
	d.fixed('F', uint64(len(table)))
	for _, key := range slices.Sorted(maps.Keys(table)) {
		d.text(key)
		d.value(table[key])
	}
}

// value has the tags of RabbitMQ's table field types.
func (d digest) value(value any) {
	switch v := value.(type) {
	case nil:
		d.fixed('V', 0)
	case bool:
		d.fixed('t', truth(v))
	case string:
		d.fixed('S', 0)
		d.text(v)
	case []byte:
		d.fixed('x', 0)
		d.bytes(v)
	case time.Time:
		d.fixed('T', uint64(v.Unix()))
	case amqp.Table:
		d.table(v)
	case []any:
		d.fixed('A', uint64(len(v)))
		for _, element := range v {
			d.value(element)
		}
	default:
		d.number(value)
	}
}

func (d digest) number(value any) {
	switch v := value.(type) {
	case int8:
		d.fixed('b', uint64(v))
	case uint8:
		d.fixed('B', uint64(v))
	case int16:
		d.fixed('s', uint64(v))
	case uint16:
		d.fixed('u', uint64(v))
	case int32:
		d.fixed('I', uint64(v))
	case int: // the client writes it as a 32-bit integer
		d.fixed('I', uint64(int32(v)))
	case uint32:
		d.fixed('i', uint64(v))
	case int64:
		d.fixed('l', uint64(v))
	case float32:
		d.fixed('f', uint64(math.Float32bits(v)))
	case float64:
		d.fixed('d', math.Float64bits(v))
	case amqp.Decimal:
		d.fixed('D', uint64(v.Scale)<<32|uint64(uint32(v.Value)))
	default:
		panic(fmt.Sprintf("schemas: a %T cannot be in an AMQP table", value))
	}
}

func truth(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
