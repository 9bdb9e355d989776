package waiting

import "testing"

// A channel holds as many messages as there is memory for, by the size of those before.
func TestWindowsOfLargeMessages(t *testing.T) {
	for _, test := range []struct{ held, bytes, want int }{
		{0, 0, firstWindow},
		{50, 0, maxWindow},
		{50, 50 * 10_000, maxWindow},
		{50, 50 << 20, 64},
		{114, 114 << 20, 64},
		{50, 50 * 100 << 20, 1},
	} {
		if got := windowOf(test.held, test.bytes); got != test.want {
			t.Errorf("after %d messages of %d bytes: %d messages, want %d", test.held, test.bytes, got, test.want)
		}
	}
}
