package subscription_test

import (
	"testing"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/subscription"
)

func TestPositions(t *testing.T) {
	for _, position := range []eventstore.Cursor{{}, {Sequence: 7}, {Sequence: 1764000000000000, EventID: "shop:v1:ab"}} {
		text := subscription.FormatPosition(position)
		if parsed, err := subscription.ParsePosition(text); parsed != position || err != nil {
			t.Errorf("%q is %v, %v; want %v", text, parsed, err, position)
		}
	}
	for _, text := range []string{"", "now", "-1", "1:", ":a", "1.5", "9223372036854775807"} {
		if parsed, err := subscription.ParsePosition(text); err == nil {
			t.Errorf("%q is %v", text, parsed)
		}
	}
}

func FuzzParsePosition(f *testing.F) {
	f.Add("7")
	f.Add("1764000000000000:shop:v1:ab")
	f.Fuzz(func(t *testing.T, text string) {
		position, err := subscription.ParsePosition(text)
		if err != nil {
			return
		}
		again, err := subscription.ParsePosition(subscription.FormatPosition(position))
		if again != position || err != nil {
			t.Errorf("%q: %v, then %v, %v", text, position, again, err)
		}
	})
}
