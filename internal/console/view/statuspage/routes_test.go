package statuspage

import (
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/operate/routes"
)

// Of several routes that are paused, the first of them is named, and none whose time is not known.
func TestFirstPausedRoute(t *testing.T) {
	at := time.Date(2026, 5, 4, 3, 0, 0, 0, time.UTC)
	later := at.Add(time.Minute)
	running, unknown := routes.RouteState{Queue: "running", State: "running"}, routes.RouteState{Queue: "unknown", State: "paused"}
	second, first := routes.RouteState{Queue: "second", State: "paused", Since: &later}, routes.RouteState{Queue: "first", State: "paused", Since: &at}
	if r := NewRoutes(routes.Routes{Routes: []routes.RouteState{running, unknown, second, first}}); r.Paused != 3 || r.First == nil || r.First.Queue != "first" {
		t.Errorf("%d, %v", r.Paused, r.First)
	}
	if r := NewRoutes(routes.Routes{Routes: []routes.RouteState{running, unknown}}); r.Paused != 1 || r.First != nil {
		t.Errorf("%d, %v", r.Paused, r.First)
	}
}
