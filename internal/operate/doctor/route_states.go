package doctor

import (
	"context"
	"slices"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/operate/routes"
	"github.com/watershipmq/watership/internal/render/wording"
)

// checkRouteStates reports routes that are paused, and queues without a consumer.
func (d *doctor) checkRouteStates(ctx context.Context) {
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
	paused := false
	for _, route := range routes {
		switch route.State {
		case "paused":
			paused = true
			d.reportPaused(route)
		case "no consumer":
			d.reportUnconsumed(route)
		}
	}
	if !paused {
		d.reportOK("paused", "no route is paused")
	}
}

func (d *doctor) reportPaused(route routes.RouteState) {
	remedy := "mend its service: the route resumes by itself when a message succeeds"
	switch {
	case route.ByHand:
		remedy = "when the reason is gone: watership routes resume " + wording.Quoted(route.Queue)
	case route.WithAll:
		remedy = "when the reason is gone: watership routes resume --all"
	}
	d.findings = append(d.findings, Finding{Check: "paused", Verdict: Warning, Detail: route.PauseText(), Since: route.Since, Remedy: remedy})
}

// reportUnconsumed leaves out an empty queue of another program, which may take its messages one
// by one, and streams, whose consumers AMQP does not count.
func (d *doctor) reportUnconsumed(route routes.RouteState) {
	if d.queues[route.Queue].Type == stream {
		return
	}
	text, remedy := "queue "+route.Queue+" has no consumer", "start the program that consumes it, or unbind the queue"
	if !route.Foreign && slices.ContainsFunc(d.Settings.Routes, func(r config.Route) bool { return r.Queue == route.Queue }) {
		remedy = "run watership serve with the role routes"
	} else if route.Messages == 0 {
		return
	}
	if route.Messages > 0 {
		text += ", and " + wording.Plural(route.Messages, "message") + " in it"
	}
	d.report("routes", Warning, text, remedy)
}
