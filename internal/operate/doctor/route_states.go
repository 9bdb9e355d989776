package doctor

import (
	"context"
	"slices"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/operate/doctor/commandline"
	"github.com/watershipmq/watership/internal/operate/routes"
	"github.com/watershipmq/watership/internal/render/wording"
)

// checkRouteStates reports routes that are paused, and queues without a consumer.
func (r recordChecks) checkRouteStates(ctx context.Context) {
	if r.store == nil || r.conn == nil {
		return
	}
	ctx, cancel := r.bounded(ctx)
	defer cancel()
	routes, err := r.Routes(ctx)
	if err != nil {
		r.report(PausesUnknown, Warning, err.Error(), "")
		return
	}
	paused := false
	for _, route := range routes {
		switch route.State {
		case "paused":
			paused = true
			r.reportPaused(route)
		case "no consumer":
			r.reportUnconsumed(route)
		}
	}
	if !paused {
		r.reportOK(PausedCheck, "no route is paused")
	}
}

func (r recordChecks) reportPaused(route routes.RouteState) {
	f := Finding{
		Code: RoutePaused, Verdict: Warning, Detail: route.PauseText(), Since: route.Since,
		Remedy: "mend its service: the route resumes by itself when a message succeeds",
	}
	switch {
	case route.ByHand:
		f.Remedy, f.Command = "when the reason is gone", commandline.New("routes resume", route.Queue)
	case route.WithAll:
		f.Remedy, f.Command = "when the reason is gone", commandline.New("routes resume").With("all", "")
	}
	r.add(f)
}

// reportUnconsumed leaves out an empty queue of another program, which may take its messages one
// by one, and streams, whose consumers AMQP does not count.
func (r recordChecks) reportUnconsumed(route routes.RouteState) {
	if r.queues[route.Queue].Type == stream {
		return
	}
	text, remedy := "queue "+route.Queue+" has no consumer", "start the program that consumes it, or unbind the queue"
	if !route.Foreign && slices.ContainsFunc(r.Settings.Routes, func(r config.Route) bool { return r.Queue == route.Queue }) {
		remedy = "run watership serve with the role routes"
	} else if route.Messages == 0 {
		return
	}
	if route.Messages > 0 {
		text += ", and " + wording.Plural(route.Messages, "message") + " in it"
	}
	r.report(RouteUnconsumed, Warning, text, remedy)
}
