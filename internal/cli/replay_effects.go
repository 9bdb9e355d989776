package cli

import (
	"fmt"
	"strings"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/replayer"
)

const maxShownEffects = 20

// effectLines lists the recorded effects of messages as in a plan, and the messages without any.
func effectLines(effects *replays.Effects) string {
	if effects == nil {
		return ""
	}
	if effects.Unread {
		return "  unknown: what they will cause, since the record could not be read in time\n"
	}
	var page strings.Builder
	if len(effects.Queues)+len(effects.Requests)+len(effects.Published) > 0 {
		fmt.Fprintf(&page, "  expected, as %s like these caused it before:\n", wording.Plural(effects.Sampled, "handled message"))
	}
	shown := 0
	line := func(e replays.Effect, what string) {
		if shown++; shown <= maxShownEffects {
			fmt.Fprintf(&page, "  %6d  %s\n", e.Expected, terminal.Cell(what, 160))
		}
	}
	for _, e := range effects.Queues {
		line(e, "at queue "+e.Queue)
	}
	for _, e := range effects.Requests {
		line(e, "requests to "+e.Receiver+" from queue "+e.Queue)
	}
	for _, e := range effects.Published {
		line(e, "published to "+replayer.Route{Exchange: e.Exchange, RoutingKey: e.RoutingKey}.String())
	}
	if shown > maxShownEffects || effects.More {
		page.WriteString("          and more\n")
	}
	for _, s := range effects.NotHandled {
		to := replayer.Route{Exchange: s.Exchange, RoutingKey: s.RoutingKey, Queue: s.Queue}
		fmt.Fprintf(&page, "  unknown: what %s will cause, as none like it was handled before at %s\n", wording.Plural(s.Messages, "message"), terminal.Cell(to.String(), 120))
	}
	if len(effects.Silent) > 0 {
		fmt.Fprintf(&page, "  unknown: what the consumers of %s publish, which is not recorded\n", terminal.Cell(strings.Join(effects.Silent, ", "), 160))
	}
	return page.String()
}
