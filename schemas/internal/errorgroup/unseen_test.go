package errorgroup

import (
	"encoding/json"
	"os"
	"testing"
)

// The messages of testdata/unseen.json were written without a look at the rules, and no rule is to
// be made for one of them: they say how errors that nobody has thought of are grouped. Of two
// messages with one group nearly all are of one kind, and of two of one kind nearly all have one.
func TestUnseenKinds(t *testing.T) {
	text, err := os.ReadFile("testdata/unseen.json")
	if err != nil {
		t.Fatal(err)
	}
	var unseen map[string][]string
	if err := json.Unmarshal(text, &unseen); err != nil {
		t.Fatal(err)
	}
	type message struct{ kind, group string }
	var all []message
	for kind, texts := range unseen {
		for _, text := range texts {
			all = append(all, message{kind, Fold(text, testLimit, nil)})
		}
	}
	var together, apart, mixed float64 // pairs of one kind in one group and in two, and of two kinds in one
	for i, a := range all {
		for _, b := range all[:i] {
			switch {
			case a.kind == b.kind && a.group == b.group:
				together++
			case a.kind == b.kind:
				apart++
				t.Logf("%s is split:\n%q\n%q", a.kind, a.group, b.group)
			case a.group == b.group:
				mixed++
				t.Logf("%s and %s have the group %q", a.kind, b.kind, a.group)
			}
		}
	}
	precision, recall := together/(together+mixed), together/(together+apart)
	t.Logf("%d messages of %d kinds: precision %.3f, recall %.3f", len(all), len(unseen), precision, recall)
	if precision < 0.95 || recall < 0.9 {
		t.Errorf("precision %.3f, recall %.3f: want 0.95 and 0.9", precision, recall)
	}
}
