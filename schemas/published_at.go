package schemas

import (
	"time"

	"github.com/watershipmq/watership/schemas/internal/headertext"
	"github.com/watershipmq/watership/schemas/internal/publishtime"
)

// publishedAt returns the best known time at which a message was published, and its
// source. A publisher can set each of the times, since a broker that sets
// timestamp_in_ms may leave an existing one. So a time counts only within the longest
// time that a copy can wait for the indexer. A replay has the times of the message that
// it repeats, except for times that the broker has set since.
func (dec Decoder) publishedAt(arrived Envelope, replayed bool, received time.Time) (time.Time, TimeSource) {
	headers := typedTable(arrived.Headers)
	ms := headers.int(headerBrokerTime)
	if own := !replayed || ms != headers.int(headerBrokerCopy); own && ms > 0 && publishtime.IsPlausible(time.UnixMilli(ms), received) {
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
		if n := headertext.Integer(value); n != 0 {
			value = n
		}
		if t, found := publishtime.Of(value, received); found {
			return t, timeOfPublisher
		}
	}
	return received, TimeOfIngest
}
