package jsonscan

import "hash/maphash"

const (
	oftenPlaces  = 1024
	longestOften = 40 // bytes
)

// often caches short strings that were read recently: the names of headers and
// exchanges repeat in each document of a page, so they need no new allocation. Of
// several strings with the same place, the cache has the last one.
type often struct {
	seed   maphash.Seed
	places [oftenPlaces]any // each holds a string
}

// NewOfMany returns a Reader for data in which values repeat.
func NewOfMany(data []byte) *Reader {
	return &Reader{scanner: scanner{data: data}, often: &often{seed: maphash.MakeSeed()}}
}

// value returns a string as an any. The cache holds values of type any, since the
// conversion of a string allocates too.
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
