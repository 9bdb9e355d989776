package wire

import (
	"time"

	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/internal/wire/publishtime"
	"github.com/watershipmq/watership/schemas"
)

// publishedAt returns the best known time at which a message was published, and its
// source. A publisher can set each of the times, since a broker that sets
// timestamp_in_ms may leave an existing one. So a time counts only within the longest
// time that a copy can wait for the indexer. A replay has the times of the message that
// it repeats, except for times that the broker has set since.
func (dec Decoder) publishedAt(arrived schemas.Envelope, replayed bool, received time.Time) (time.Time, schemas.TimeSource) {
	headers := header.Table(arrived.Headers)
	ms := headers.Int(header.BrokerTime)
	if own := !replayed || ms != headers.Int(headerBrokerCopy); own && ms > 0 && publishtime.IsPlausible(time.UnixMilli(ms), received) {
		return time.UnixMilli(ms), TimeOfBroker
	}
	if replayed {
		return received, TimeOfIngest
	}
	if t, found := publishtime.OfStamp(arrived.Properties.Timestamp, received); found {
		return t, timeOfPublisher
	}
	for _, name := range dec.TimeHeaders {
		value := headers[name]
		if n := header.Integer(value); n != 0 {
			value = n
		}
		if t, found := publishtime.Of(value, received); found {
			return t, timeOfPublisher
		}
	}
	return received, TimeOfIngest
}
