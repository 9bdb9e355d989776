package rabbit

import (
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/amqpstream"
)

// sentMessages are messages in the order in which they were sent. Removed ones are cut off once they
// are the oldest. The zero value has none.
type sentMessages struct {
	all  []*Pending // from head on
	head int
}

// add adds a message. A number of at least most removed messages is cut off, or all would grow with
// every message.
func (s *sentMessages) add(m *Pending, most int) {
	if s.head > most {
		s.all = s.all[:copy(s.all, s.all[s.head:])]
		s.head = 0
	}
	s.all = append(s.all, m)
}

// oldest returns the first message without outcome, nil if none exists.
func (s *sentMessages) oldest() *Pending {
	for ; s.head < len(s.all); s.head++ {
		if m := s.all[s.head]; !m.removed {
			return m
		}
		s.all[s.head] = nil
	}
	s.all, s.head = s.all[:0], 0
	return nil
}

// rest returns the messages from the oldest on, some of which may be removed.
func (s *sentMessages) rest() []*Pending { return s.all[s.head:] }

// encodedHeaders are the headers of the message that was published last, encoded.
type encodedHeaders struct {
	table  amqp.Table // not nil
	buffer []byte
}

// maxEncoded is the size of encoded headers up to which amqpstream sends them, in bytes. RabbitMQ
// takes 128 KiB by default.
const maxEncoded = 1 << 20

// encode returns a message with encoded headers, for the client library to write before the
// next call, and their size. Headers with a value that cannot be encoded stay for the client
// library, which refuses them.
func (h *encodedHeaders) encode(p amqp.Publishing) (_ amqp.Publishing, size int) {
	if len(p.Headers) == 0 {
		return p, 0
	}
	headers, err := amqpstream.AppendTable(h.buffer[:0], p.Headers)
	if h.buffer = headers; err == nil && len(headers) <= maxEncoded {
		h.table[amqpstream.EncodedHeaders] = headers
		p.Headers = h.table
	}
	return p, len(headers)
}
