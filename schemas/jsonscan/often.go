package jsonscan

import "hash/maphash"

const (
	oftenPlaces  = 1024
	longestOften = 40 // bytes
)

// often has short strings that were read lately: names of headers and exchanges come
// with each of a page's documents, and need not be made anew for each. Of strings that
// share a place the last one has it.
type often struct {
	seed   maphash.Seed
	places [oftenPlaces]any // strings
}

// NewOfMany is New for data that holds many values of one kind.
func NewOfMany(data []byte) *Reader {
	return &Reader{data: data, often: &often{seed: maphash.MakeSeed()}}
}

// value is a string as an any: to make that of one takes a piece of memory too.
func (o *often) value(text []byte) any {
	if o == nil || len(text) > longestOften {
		return string(text)
	}
	place := &o.places[maphash.Bytes(o.seed, text)%oftenPlaces]
	if known, ok := (*place).(string); !ok || known != string(text) {
		*place = string(text)
	}
	return *place
}
