package doctor

import (
	"context"
	"fmt"

	"github.com/watershipmq/watership/internal/wording"
)

// checkPaused reports routes that are paused.
func (d *doctor) checkPaused(ctx context.Context) {
	if d.store == nil || d.conn == nil {
		return
	}
	ctx, cancel := d.bounded(ctx)
	defer cancel()
	routes, err := d.Routes(ctx)
	if err != nil {
		d.report("paused", Warning, err.Error(), "")
		return
	}
	problems := len(d.findings)
	for _, route := range routes {
		if route.State != "paused" {
			continue
		}
		text, remedy := "the route of queue "+route.Queue+" is paused", "mend its service: the route resumes by itself when a message succeeds"
		if route.WithAll && !route.ByHand {
			text, remedy = text+" with all routes", "when the reason is gone: watership routes resume --all"
		}
		if route.ByHand {
			text, remedy = text+" by hand", "when the reason is gone: watership routes resume "+wording.Quoted(route.Queue)
		}
		if route.Since != nil {
			text += fmt.Sprintf(" since %s: %s", wording.Time(*route.Since), route.Error)
		}
		d.report("paused", Warning, text, remedy)
	}
	if len(d.findings) == problems {
		d.reportOK("paused", "no route is paused")
	}
}
