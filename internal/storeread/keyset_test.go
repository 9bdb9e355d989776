package storeread

import (
	"fmt"
	"testing"
)

func TestSet(t *testing.T) {
	var s Set
	for n := range 100_000 {
		k := Of("id", fmt.Sprint(n))
		if s.Has(k) || !s.Add(k) || !s.Has(k) || s.Add(k) {
			t.Fatalf("key %d is not there exactly after it was added", n)
		}
	}
	for n := range 100_000 {
		if !s.Has(Of("id", fmt.Sprint(n))) || s.Has(Of("event", fmt.Sprint(n))) {
			t.Fatalf("key %d got lost, or another is there", n)
		}
	}
	if s.Len() != 100_000 {
		t.Errorf("%d keys, want 100,000", s.Len())
	}
}

// TestSetSize limits a set to 24 bytes a message at any size of a real job.
func TestSetSize(t *testing.T) {
	var s Set
	for n := range 300_000 {
		s.Add(Of(fmt.Sprint(n)))
		if n+1 < 10_000 || n%997 != 0 {
			continue
		}
		bytes := 0
		for i := range s.tables {
			bytes += 16 * cap(s.tables[i].slots)
		}
		if each := float64(bytes) / float64(s.size); each > 24 {
			t.Fatalf("%.1f bytes a key with %d keys", each, s.size)
		}
	}
}

// TestKeys: the boundaries of the parts matter.
func TestKeys(t *testing.T) {
	seen := map[Key]string{}
	for _, parts := range [][]string{{"ab", "c"}, {"a", "bc"}, {"abc"}, {"abc", ""}, {"", "abc"}, {}} {
		k := Of(parts...)
		if other, there := seen[k]; there {
			t.Errorf("%q has the key of %s", parts, other)
		}
		seen[k] = fmt.Sprintf("%q", parts)
	}
}

func BenchmarkSet(b *testing.B) {
	keys := make([]Key, 1<<20)
	for n := range keys {
		keys[n] = Of(fmt.Sprint(n))
	}
	b.ReportAllocs()
	for b.Loop() {
		var s Set
		for _, k := range keys {
			s.Add(k)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(keys)), "ns/key")
}

// A set with few keys in a table must find no others.
func TestSetOfFew(t *testing.T) {
	var keys Set
	for n := range 100 {
		if absent := (Key{1, 2, byte(n)}); keys.Has(absent) {
			t.Fatalf("of %d keys: it has %v", n, absent)
		}
		if !keys.Add(Key{1, 1, byte(n)}) {
			t.Fatalf("of %d keys: one more is not new", n)
		}
	}
}
