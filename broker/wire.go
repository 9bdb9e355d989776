package broker

import "encoding/binary"

// decoder reads the arguments of a method or the payload of a header (§4.2.5). Reading
// past the end returns zero values and sets bad, so that callers check once, at the
// end.
type decoder struct {
	rest []byte
	bad  bool
}

func (d *decoder) take(n int) []byte {
	if n > len(d.rest) {
		d.bad, d.rest = true, nil
		return nil
	}
	taken := d.rest[:n:n]
	d.rest = d.rest[n:]
	return taken
}

func (d *decoder) octet() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) short() uint16 {
	if b := d.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (d *decoder) long() uint32 {
	if b := d.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (d *decoder) longlong() uint64 {
	if b := d.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (d *decoder) shortstr() string { return string(d.take(int(d.octet()))) }

// longstr returns a part of the decoder's memory.
func (d *decoder) longstr() []byte {
	size := d.long()
	if uint64(size) > uint64(len(d.rest)) {
		d.bad, d.rest = true, nil
		return nil
	}
	return d.take(int(size))
}

// table returns a part of the decoder's memory, not validated.
func (d *decoder) table() table { return table(d.longstr()) }

// bits holds up to eight successive bit arguments, the first in the lowest bit.
type bits byte

func (d *decoder) bits() bits { return bits(d.octet()) }

func (b bits) at(n int) bool { return b&(1<<n) != 0 }

func bit(n int, set bool) byte {
	if set {
		return 1 << n
	}
	return 0
}

// maxShortstr is the maximal length of a short string, in bytes.
const maxShortstr = 255

// appendShortstr truncates a longer string, as RabbitMQ truncates reply texts.
func appendShortstr(b []byte, s string) []byte {
	if len(s) > maxShortstr {
		s = s[:maxShortstr-3] + "..."
	}
	return append(append(b, byte(len(s))), s...)
}

func appendLongstr(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
}
