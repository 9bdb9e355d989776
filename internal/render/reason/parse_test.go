package reason

import "testing"

func TestParseIsTheInverseOfBy(t *testing.T) {
	for _, d := range []Decision{{"ann", "obsolete"}, {"ann", "a test (mine)"}, {"ann", ""}, {"", "obsolete"}} {
		if got := Parse(d.Text()); d.Operator != "" && got != d {
			t.Errorf("%+v of %q, want %+v", got, d.Text(), d)
		}
	}
	if got := Parse("no name"); got != (Decision{Reason: "no name"}) {
		t.Errorf("%+v", got)
	}
}
