package console

import (
	"html/template"
	"net/http"
	"net/url"
	"time"

	"github.com/watershipmq/watership/internal/console/actionpage"
	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/console/triagepage"
	"github.com/watershipmq/watership/internal/console/view/chart"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/problem"
)

// failuresView is the page of failures: groups of them, or each one.
type failuresView struct {
	Filter  frame.Filter
	List    bool
	Sort    string
	Problem *problem.Problem

	Groups   []failureGroup
	Step     time.Duration      // of the groups' histograms
	From, To time.Time          // of all of them
	Width    int                // of their sparklines
	Failures []failures.Failure // of the list
	Count    int                // of failures in all groups

	WithMuted bool // muted groups are shown
	Muted     int  // groups that are not

	Later, Next string // links to the first and the next page; "": none exists
	ReplayAll   string // links for all failures that match
	DiscardAll  string
	Done        template.HTML // the report of an action
}

// failureGroup is a group with its links.
type failureGroup struct {
	failures.FailureGroup
	Bars                              []chart.SparkBar
	Most                              int // failures in one step
	Within                            string
	Page                              string // of the group
	Messages, Single, Replay, Discard string
}

const (
	groupsPerPage   = 100
	failuresPerPage = 100
	storeRetry      = 5 * time.Second // while the store is unavailable
	badgeRefresh    = 30 * time.Second
)

// failures shows the unresolved failures that match a filter.
func (c failurePages) failures(r *http.Request) (frame.Response, error) {
	query := r.URL.Query()
	zone, _ := frame.ZoneOf(r)
	v := failuresView{Filter: frame.ReadFilter(query, zone, frame.AllTime), List: query.Get("view") == "list", Sort: "count", Done: actionpage.Before(c.Frame, r)}
	if query.Get("sort") == "last" {
		v.Sort = "last"
	}
	v.WithMuted = query.Get("muted") == "true"
	err := v.read(r, c.api)
	shown := frame.Page{Title: "Failures", Section: "/failures", Template: "failures.html", Styles: []string{"failures.css"}, Scripts: []string{"failures.js"}}
	if err != nil {
		v.Problem = frame.ProblemOf(err)
		shown.Status = v.Problem.Status
		if shown.Status == http.StatusServiceUnavailable {
			shown.Refresh = storeRetry
		}
	}
	if shown.HasBadge = err == nil && !v.List; shown.HasBadge {
		shown.Badge, shown.Refresh = v.Count, badgeRefresh
	}
	shown.Data = v
	return shown, nil
}

// Keep are the parameters of the page besides the filter.
func (v failuresView) Keep() map[string]string {
	keep := map[string]string{}
	if v.List {
		keep["view"] = "list"
	}
	if v.Sort != "count" {
		keep["sort"] = v.Sort
	}
	if v.WithMuted {
		keep["muted"] = "true"
	}
	return keep
}

// URL returns the address of the page with other parameters; "" leaves one out.
func (v failuresView) URL(pairs ...string) string {
	values := v.Filter.URL()
	for name, value := range v.Keep() {
		values.Set(name, value)
	}
	return linkTo("/failures", values, pairs...)
}

// linkTo returns the address of a page with values and further ones; "" removes a value.
func linkTo(path string, values url.Values, pairs ...string) string {
	for i := 0; i < len(pairs); i += 2 {
		if values.Set(pairs[i], pairs[i+1]); pairs[i+1] == "" {
			values.Del(pairs[i])
		}
	}
	if len(values) == 0 {
		return path
	}
	return path + "?" + values.Encode()
}

func (v *failuresView) read(r *http.Request, api operation.Via) error {
	cursor := r.URL.Query().Get("cursor")
	if cursor != "" {
		v.Later = v.URL()
	}
	v.ReplayAll = v.replayLink(frame.Within(v.Filter.Query, history.GivenUp().String()))
	v.DiscardAll = v.discardLink(frame.Within(v.Filter.Query, ""))
	if v.List {
		found, err := failures.ListFailures.Call(r.Context(), api, failures.FailuresInput{QueryFilter: v.Filter.API(), Limit: failuresPerPage, Cursor: cursor})
		v.Failures = found.Body.Failures
		v.addNext(found.Body.Cursor)
		return err
	}
	in := failures.GroupsInput{QueryFilter: v.Filter.API(), Limit: groupsPerPage, Sort: v.Sort, Muted: v.WithMuted, Cursor: cursor}
	found, err := failures.GroupFailures.Call(r.Context(), api, in)
	v.Count, v.Muted = found.Body.Failures, found.Body.Muted
	v.addNext(found.Body.Cursor)
	v.addGroups(found.Body.Groups)
	return err
}

func (v *failuresView) addNext(cursor string) {
	if cursor != "" {
		v.Next = v.URL("cursor", cursor)
	}
}

// addGroups adds groups with sparklines on one axis.
func (v *failuresView) addGroups(groups []failures.FailureGroup) {
	histograms := make([]history.Histogram, len(groups))
	for i, g := range groups {
		histograms[i] = g.Histogram
	}
	for i, h := range history.Align(histograms) {
		v.From, v.To, v.Step, v.Width = h.Begin, h.End(), time.Duration(h.Step)*time.Second, 4*len(h.Counts)
		found := groups[i].Query
		if v.Filter.Query != "" {
			found = frame.Within(v.Filter.Query, found)
		}
		g := failureGroup{
			FailureGroup: groups[i], Page: triagepage.Path(groups[i].ID), Within: groups[i].Query, Messages: v.Filter.With("/messages", found), Single: linkTo("/failures", v.Filter.URL(), "q", found, "view", "list"),
			Replay: v.replayLink(found), Discard: v.discardLink(found),
		}
		g.Bars, g.Most = chart.Sparkline(h.Counts)
		v.Groups = append(v.Groups, g)
	}
}

func (v failuresView) replayLink(query string) string {
	return linkTo("/replays/new", v.Filter.URL(), "q", query, "target", "failed_queue")
}

func (v failuresView) discardLink(query string) string {
	return linkTo("/failures/discard", v.Filter.URL(), "q", query)
}
