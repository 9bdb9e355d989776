package simulation

import (
	"encoding/binary"
	"io"
	"time"
)

// reader is the crypto/rand.Reader of a run. A number, such as a jitter, depends on the seed and
// the time alone, so that the order of goroutines that draw at one moment does not matter. Longer
// values are ids, of which each must be another.
type reader struct {
	ids  io.Reader
	seed uint64
}

// Read implements io.Reader.
func (r *reader) Read(b []byte) (int, error) {
	if len(b) != 8 {
		return r.ids.Read(b)
	}
	binary.LittleEndian.PutUint64(b, drawn(r.seed, "jitter", time.Now().UnixNano())*0x9e3779b97f4a7c15)
	return len(b), nil
}
