package wiretest

import (
	"encoding/binary"
	"math"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TableMaker makes a table from arbitrary bytes.
type TableMaker struct{ Data []byte }

func (m *TableMaker) Take(n int) []byte {
	taken := make([]byte, n)
	m.Data = m.Data[copy(taken, m.Data):]
	return taken
}

func (m *TableMaker) Table(depth int) amqp.Table {
	table := amqp.Table{}
	for n := m.Take(1)[0] % 8; n > 0; n-- {
		kind := m.Take(1)[0]
		table[m.Text()] = m.Value(kind, depth)
	}
	return table
}

func (m *TableMaker) Text() string { return string(m.Take(int(m.Take(1)[0] % 32))) }

func (m *TableMaker) Value(kind byte, depth int) any {
	bits := binary.BigEndian.Uint64(m.Take(8))
	switch kind % 18 {
	case 0:
		return nil
	case 1:
		return bits&1 == 1
	case 2:
		return int8(bits)
	case 3:
		return uint8(bits)
	case 4:
		return int16(bits)
	case 5:
		return uint16(bits)
	case 6:
		return int32(bits)
	case 7:
		return uint32(bits)
	case 8:
		return int64(bits)
	case 9:
		return math.Float32frombits(uint32(bits))
	case 10:
		return math.Float64frombits(bits)
	case 11:
		return amqp.Decimal{Scale: uint8(bits >> 32), Value: int32(bits)}
	case 12:
		return time.Unix(int64(bits), 0)
	case 13:
		return []byte(m.Text())
	case 14, 15:
		return m.Text()
	case 16:
		if depth < 8 {
			return m.Table(depth + 1)
		}
	case 17:
		if depth < 8 {
			return []any{m.Value(byte(bits), depth+1), m.Value(byte(bits>>8), depth+1)}
		}
	}
	return int64(0)
}
