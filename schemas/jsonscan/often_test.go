package jsonscan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestOfMany reads strings that repeat, that share places, and that are too long
// for the cache, and changes the data after each read.
func TestOfMany(t *testing.T) {
	var want []string
	for n := range 10 * oftenPlaces {
		want = append(want, "", "tenant", fmt.Sprint("m-", n), fmt.Sprint("m-", n/2), strings.Repeat("x", n%100))
	}
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	r := NewOfMany(data)
	var got []string
	r.Array(func() {
		if err := r.Part(func(part *Reader) {
			if len(got)%2 == 0 {
				got = append(got, part.Text())
				return
			}
			got = append(got, part.TextValue().(string))
		}); err != nil {
			t.Fatal(err)
		}
	})
	if err := r.End(); err != nil {
		t.Fatal(err)
	}
	clear(data)
	if !slices.Equal(got, want) {
		t.Error("other strings were read")
	}
}

// TestOfManyMakesAStringOnce counts allocations, which the cache saves.
func TestOfManyMakesAStringOnce(t *testing.T) {
	data := []byte(`["` + strings.Repeat(`tenant","`, 1000) + `end"]`)
	made := testing.AllocsPerRun(10, func() {
		r := NewOfMany(data)
		r.Array(func() { r.Text() })
	})
	if made > 20 {
		t.Errorf("%v pieces of memory for a thousand equal strings", made)
	}
}
