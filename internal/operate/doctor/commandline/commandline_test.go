package commandline_test

import (
	"testing"

	"github.com/watershipmq/watership/internal/operate/doctor/commandline"
)

func TestLines(t *testing.T) {
	resume := commandline.New("subscriptions resume", "it's mine")
	for want, c := range map[string]*commandline.Command{
		`watership setup`: commandline.New("setup"),
		`watership subscriptions resume 'it'\''s mine' --skip-removed`: resume.With("skip-removed", ""),
		`watership subscriptions resume 'it'\''s mine'`:                resume,
		`watership setup --retire 'a b' --untap shop`:                  commandline.New("setup").With("retire", "a b").With("untap", "shop"),
	} {
		if got := c.String(); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
}
