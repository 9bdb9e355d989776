package indexer

import (
	"slices"
	"testing"
)

func TestSequenceRanges(t *testing.T) {
	var l sequenceRanges
	if l.contains(0) {
		t.Error("an empty list has a sequence")
	}
	l = l.merge(sequenceRanges{{After: 100, UpTo: 200}}, 0)
	for sequence, want := range map[int64]bool{100: false, 101: true, 200: true, 201: false} {
		if l.contains(sequence) != want {
			t.Errorf("%v has %d: %v", l, sequence, !want)
		}
	}
	for name, test := range map[string]struct {
		more  sequenceRanges
		since int64
		want  sequenceRanges
	}{
		"none":             {nil, 0, sequenceRanges{{100, 200}}},
		"the same":         {sequenceRanges{{100, 200}}, 0, sequenceRanges{{100, 200}}},
		"one that follows": {sequenceRanges{{200, 300}}, 0, sequenceRanges{{100, 300}}},
		"one with a gap":   {sequenceRanges{{201, 300}}, 0, sequenceRanges{{100, 200}, {201, 300}}},
		"one before":       {sequenceRanges{{1, 2}}, 0, sequenceRanges{{1, 2}, {100, 200}}},
		"one within":       {sequenceRanges{{150, 160}}, 0, sequenceRanges{{100, 200}}},
		"old ones go":      {sequenceRanges{{201, 300}}, 201, sequenceRanges{{201, 300}}},
	} {
		if got := l.merge(test.more, test.since); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
	for n := range int64(1000) {
		l = l.merge(sequenceRanges{{1000 + 10*n, 1005 + 10*n}}, 0)
	}
	if len(l) > 100 || !l.contains(1000+9990+1) {
		t.Errorf("%d spans, the last %v", len(l), l[len(l)-1])
	}
}
