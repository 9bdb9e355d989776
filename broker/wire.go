package broker

import "encoding/binary"

// decoder takes values off the arguments of a method or the payload of a header
// (§4.2.5). Taking more than there is gives zero values and marks it bad, so that
// callers look once, at the end.
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

// longstr shares the decoder's memory.
func (d *decoder) longstr() []byte {
	size := d.long()
	if uint64(size) > uint64(len(d.rest)) {
		d.bad, d.rest = true, nil
		return nil
	}
	return d.take(int(size))
}

// table shares the decoder's memory and is not validated.
func (d *decoder) table() table { return table(d.longstr()) }

// bits are up to eight bit arguments in a row, the first in the lowest place.
type bits byte

func (d *decoder) bits() bits { return bits(d.octet()) }

func (b bits) at(n int) bool { return b&(1<<n) != 0 }

func bit(n int, set bool) byte {
	if set {
		return 1 << n
	}
	return 0
}

// maxShortstr is the greatest length of a short string, in bytes.
const maxShortstr = 255

// appendShortstr cuts what is too long, as RabbitMQ cuts reply texts.
func appendShortstr(b []byte, s string) []byte {
	if len(s) > maxShortstr {
		s = s[:maxShortstr-3] + "..."
	}
	return append(append(b, byte(len(s))), s...)
}

func appendLongstr(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
}
