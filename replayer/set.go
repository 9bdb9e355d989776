package replayer

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
)

// key identifies a message. It has 16 bytes, since a job keeps one for each message
// that it sends.
type key [16]byte

func keyOf(parts ...string) key {
	var room [256]byte
	text := room[:0]
	for _, part := range parts {
		text = binary.AppendUvarint(text, uint64(len(part)))
		text = append(text, part...)
	}
	sum := sha256.Sum256(text)
	return key(sum[:16])
}

// set holds keys in tables that are at most nine tenths full: 18 to 23 bytes a
// key, where a map needs about 40. There are many small tables, so that only one
// of them exists twice while it grows. The zero value is empty.
type set struct {
	tables [256]table
	size   int
}

// add adds a key and reports whether it is new.
func (s *set) add(k key) bool {
	added := s.tables[k[0]].add(k)
	if added {
		s.size++
	}
	return added
}

func (s *set) has(k key) bool {
	_, found := s.tables[k[0]].find(k)
	return found
}

// table is a hash table with linear probing. The keys are hashes already. The zero key
// marks a free slot: no message has it.
type table struct {
	slots []key
	size  int
}

const minTableSize = 8 // slots

func (t *table) add(k key) bool {
	if (t.size+1)*10 > len(t.slots)*9 { // find needs a free slot to end
		t.grow()
	}
	at, found := t.find(k)
	if found {
		return false
	}
	t.slots[at] = k
	t.size++
	return true
}

// find returns the slot of a key, or the free slot for it.
func (t *table) find(k key) (at int, found bool) {
	if len(t.slots) == 0 {
		return 0, false
	}
	// The upper half of the product maps the hash evenly to any number of slots.
	place, _ := bits.Mul64(binary.LittleEndian.Uint64(k[8:]), uint64(len(t.slots)))
	for at = int(place); ; at++ {
		if at == len(t.slots) {
			at = 0
		}
		switch t.slots[at] {
		case k:
			return at, true
		case key{}:
			return at, false
		}
	}
}

func (t *table) grow() {
	old := t.slots
	t.slots = make([]key, max(minTableSize, len(old)+len(old)/4))
	for _, k := range old {
		if k != (key{}) {
			at, _ := t.find(k)
			t.slots[at] = k
		}
	}
}
