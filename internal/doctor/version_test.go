package doctor

import "testing"

func TestOlder(t *testing.T) {
	for _, test := range []struct {
		version, than string
		want          bool
	}{{"3.9.2", "3.10", true}, {"3.10.8", "3.10", false}, {"4.0.5", "4.0", false}, {"3.13", "4.0", true}, {"", "3.10", true}} {
		if got := older(test.version, test.than); got != test.want {
			t.Errorf("%s older than %s: %t", test.version, test.than, got)
		}
	}
}
