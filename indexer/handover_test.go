package indexer

import (
	"slices"
	"testing"
)

func TestSpans(t *testing.T) {
	var l spans
	if l.contain(0) {
		t.Error("an empty list has a sequence")
	}
	l = l.with(spans{{After: 100, UpTo: 200}}, 0)
	for sequence, want := range map[int64]bool{100: false, 101: true, 200: true, 201: false} {
		if l.contain(sequence) != want {
			t.Errorf("%v has %d: %v", l, sequence, !want)
		}
	}
	for name, test := range map[string]struct {
		more  spans
		since int64
		want  spans
	}{
		"none":             {nil, 0, spans{{100, 200}}},
		"the same":         {spans{{100, 200}}, 0, spans{{100, 200}}},
		"one that follows": {spans{{200, 300}}, 0, spans{{100, 300}}},
		"one with a gap":   {spans{{201, 300}}, 0, spans{{100, 200}, {201, 300}}},
		"one before":       {spans{{1, 2}}, 0, spans{{1, 2}, {100, 200}}},
		"one within":       {spans{{150, 160}}, 0, spans{{100, 200}}},
		"old ones go":      {spans{{201, 300}}, 201, spans{{201, 300}}},
	} {
		if got := l.with(test.more, test.since); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
	for n := range int64(1000) {
		l = l.with(spans{{1000 + 10*n, 1005 + 10*n}}, 0)
	}
	if len(l) > 100 || !l.contain(1000+9990+1) {
		t.Errorf("%d spans, the last %v", len(l), l[len(l)-1])
	}
}
