package storeread

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
)

// Key is a hash of 16 bytes.
type Key [16]byte

// Of returns the key of a sequence of parts. Other sequences have other keys, even if
// they have the same text.
func Of(parts ...string) Key {
	var room [256]byte
	text := room[:0]
	for _, part := range parts {
		text = binary.AppendUvarint(text, uint64(len(part)))
		text = append(text, part...)
	}
	sum := sha256.Sum256(text)
	return Key(sum[:16])
}

// Set holds keys in tables that are at most nine tenths full: 18 to 23 bytes a
// key, where a map needs about 40. There are many small tables, so that only one
// of them exists twice while it grows. The zero value is empty.
type Set struct {
	tables [256]table
	size   int
}

// Add adds a key and reports whether it is new.
func (s *Set) Add(k Key) bool {
	added := s.tables[k[0]].add(k)
	if added {
		s.size++
	}
	return added
}

// Has reports whether the set has a key.
func (s *Set) Has(k Key) bool {
	_, found := s.tables[k[0]].find(k)
	return found
}

// Len returns the number of keys.
func (s *Set) Len() int { return s.size }

// table is a hash table with linear probing. The keys are hashes already. The zero Key
// marks a free slot: no sequence of parts has it.
type table struct {
	slots []Key
	size  int
}

const minTableSize = 8 // slots

func (t *table) add(k Key) bool {
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
func (t *table) find(k Key) (at int, found bool) {
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
		case Key{}:
			return at, false
		}
	}
}

func (t *table) grow() {
	old := t.slots
	t.slots = make([]Key, max(minTableSize, len(old)+len(old)/4))
	for _, k := range old {
		if k != (Key{}) {
			at, _ := t.find(k)
			t.slots[at] = k
		}
	}
}
