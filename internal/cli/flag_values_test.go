package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/watershipmq/watership/internal/cli/terminal"
)

// Every flag with a duration or a time reads the same ones, and its errors name the same.
func TestFlagsReadDurationsAndTimesAlike(t *testing.T) {
	found := 0
	everyCommand(newRoot(terminal.Streams{}, nil), func(cmd *cobra.Command) {
		path := cmd.CommandPath()
		cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
			switch flag.Value.Type() {
			case "duration":
				for text, want := range map[string]string{"90m": "90m", "2d": "2d", "1d12h": "36h", "0": "0"} {
					if err := flag.Value.Set(text); err != nil || flag.Value.String() != want {
						t.Errorf("%s --%s %s: %s, %v", path, flag.Name, text, flag.Value, err)
					}
				}
				for _, text := range []string{"", "2", "-1h", "soon"} {
					if err := flag.Value.Set(text); err == nil || !strings.HasPrefix(err.Error(), "expected a duration such as 15m") {
						t.Errorf("%s --%s %q: %v", path, flag.Name, text, err)
					}
				}
			case "time":
				for _, text := range []string{"2026-05-04T06:00:00Z", "2026-05-04 08:00", "2026-05-04", "now+2h"} {
					if err := flag.Value.Set(text); err != nil {
						t.Errorf("%s --%s %s: %v", path, flag.Name, text, err)
					}
				}
				if err := flag.Value.Set("tomorrow"); err == nil || !strings.HasPrefix(err.Error(), "expected a time such as") {
					t.Errorf("%s --%s: %v", path, flag.Name, err)
				}
			default:
				return
			}
			found++
		})
	})
	if found < 8 {
		t.Errorf("%d flags have a duration or a time", found)
	}
}
