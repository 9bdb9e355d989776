package console

import (
	"context"
	"net/http"

	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/console/view/mapview"
	"github.com/watershipmq/watership/internal/operate/messages"
)

// mapPage is the data of the page of the map of services.
type mapPage struct {
	Filter frame.Filter
	Wait   string
	Map    *frame.Part[mapview.Map]
}

// Whole is a link to the map of all that was recorded; "": the page shows it.
func (p mapPage) Whole() string {
	if p.Filter.Query == "" && p.Filter.Since == frame.AllTime {
		return ""
	}
	return "/map?since=" + frame.AllTime
}

// mapEdges is the maximum number of ways that are drawn.
const mapEdges = 60

// show draws which services publish to which exchanges and handle which queues.
func (c mapPages) show(r *http.Request) (frame.Response, error) {
	zone, _ := frame.ZoneOf(r)
	f := frame.ReadFilter(r.URL.Query(), zone, "24h")
	p := frame.NewParts(r)
	data := mapPage{Filter: f, Wait: frame.WaitLink(r)}
	data.Map = frame.Ask(p, func(ctx context.Context) (mapview.Map, error) {
		found, err := messages.GetServiceMap.Call(ctx, c.api, messages.MapInput{QueryFilter: f.API(), Limit: mapEdges})
		return mapview.New(found.Body, func(query string) string { return f.With("/messages", frame.Within(f.Query, query)) }), err
	})
	p.Wait()
	made := systemPage("Map of services", "/routes", "map.html", data)
	made.Styles, made.Scripts = append(made.Styles, "map.css"), append(made.Scripts, "query.js")
	if data.Map.Problem != nil {
		made.Status = data.Map.Problem.Status
	}
	return made, nil
}
