package amqpstream

import "encoding/binary"

// Content header frames (AMQP 0-9-1 §4.2.6.1): class, weight, body size, property
// flags, properties. Headers are the third property.
const (
	contentFlagsAt = frameHeader + 2 + 2 + 8
	propertiesAt   = contentFlagsAt + 2

	flagContentType     = 0x8000
	flagContentEncoding = 0x4000
	flagHeaders         = 0x2000
)

// headersOf locates the headers table in a content header frame: its entries,
// without the length prefix, are frame[start:end].
func headersOf(frame []byte) (start, end int, ok bool) {
	limit := len(frame) - frameEnd
	if limit < propertiesAt {
		return 0, 0, false
	}
	flags := binary.BigEndian.Uint16(frame[contentFlagsAt:])
	start = propertiesAt
	for _, before := range [...]uint16{flagContentType, flagContentEncoding} {
		if flags&before != 0 {
			if start >= limit {
				return 0, 0, false
			}
			start += 1 + int(frame[start])
		}
	}
	if flags&flagHeaders == 0 || start+4 > limit {
		return 0, 0, false
	}
	end = start + 4 + int(binary.BigEndian.Uint32(frame[start:]))
	return start + 4, end, end <= limit
}

// replaceHeaders returns the frame with table in place of frame[start:end].
func replaceHeaders(frame []byte, start, end int, table []byte) []byte {
	changed := make([]byte, 0, len(frame)-(end-start)+len(table))
	changed = append(changed, frame[:start-4]...)
	changed = binary.BigEndian.AppendUint32(changed, uint32(len(table)))
	changed = append(changed, table...)
	changed = append(changed, frame[end:]...)
	binary.BigEndian.PutUint32(changed[3:], uint32(len(changed)-frameHeader-frameEnd))
	return changed
}
