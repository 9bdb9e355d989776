package doctor

import "testing"

func TestIsOlder(t *testing.T) {
	for _, test := range []struct {
		version, minimum string
		want             bool
	}{{"3.9.2", "3.10", true}, {"3.10.8", "3.10", false}, {"4.0.5", "4.0", false}, {"3.13", "4.0", true}, {"", "3.10", true}} {
		if got := isOlder(test.version, test.minimum); got != test.want {
			t.Errorf("%s is older than %s: %t", test.version, test.minimum, got)
		}
	}
}
