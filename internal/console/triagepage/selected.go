package triagepage

import (
	"net/http"
	"strings"

	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/operation/problem"
)

// selected leads to the action for groups that were selected on the page of failures: the id of
// each, and the query for its failures.
func (p Pages) selected(r *http.Request) (frame.Response, error) {
	query := r.URL.Query()
	zone, _ := frame.ZoneOf(r)
	filter := frame.ReadFilter(query, zone, frame.AllTime)
	var ids, queries []string
	for _, group := range query["kind"] {
		id, text, _ := strings.Cut(group, " ")
		ids, queries = append(ids, id), append(queries, text)
	}
	if len(ids) == 0 {
		return nil, problem.BadRequest("no group is selected", "Go back and select some.")
	}
	values := filter.URL()
	if query.Get("do") == "resolve" {
		values["group"] = ids
		return frame.Redirect("/failures/resolve?" + values.Encode()), nil
	}
	text := frame.Within(filter.Query, "("+strings.Join(queries, ") or (")+")")
	if !frame.FitsQuery(text) {
		return nil, problem.BadRequest("the selected groups make a query of more than 4000 characters", "Go back and select fewer, or narrow the query and use all that match.")
	}
	values.Set("q", text)
	if query.Get("do") == "discard" {
		return frame.Redirect("/failures/discard?" + values.Encode()), nil
	}
	values.Set("target", "failed_queue")
	return frame.Redirect("/replays/new?" + values.Encode()), nil
}
