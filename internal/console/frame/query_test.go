package frame

import (
	"testing"

	"github.com/watershipmq/watership/eventstore/kql"
)

// Two queries are joined with no more parentheses than they need, and mean both.
func TestWithin(t *testing.T) {
	for _, test := range []struct{ query, other, want string }{
		{"", "", "*"},
		{"*", " * ", "*"},
		{" queue: orders ", "", "queue: orders"},
		{"*", "queue: orders", "queue: orders"},
		{"queue: orders", "*", "queue: orders"},
		{"queue: orders", "attempt > 2", "queue: orders and attempt > 2"},
		{"queue: orders or tenant: acme", "not error.type: *", "(queue: orders or tenant: acme) and not error.type: *"},
		{"no stock", "a: 1 and b: 2", "no stock and a: 1 and b: 2"},
		{"queue: orders", "a: 1 or b: 2", "queue: orders and (a: 1 or b: 2)"},
		{"queue: (a or b)", "c: 3", "(queue: (a or b)) and c: 3"},
		{"queue:", "c: 3", "(queue:) and c: 3"}, // a mistake stays one
	} {
		got := Within(test.query, test.other)
		if got != test.want {
			t.Errorf("%q within %q: %q, want %q", test.other, test.query, got, test.want)
		}
		if _, mistaken := kql.Parse(test.query); mistaken == nil {
			if _, err := kql.Parse(got); err != nil {
				t.Error(err)
			}
		}
	}
}
