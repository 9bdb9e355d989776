package triagepage

import (
	"net/http"
	"strings"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/operation/problem"
)

// byView is the page of failures by the values of fields.
type byView struct {
	Filter  frame.Filter
	Fields  string // as the user wrote them
	Found   failures.FailuresBy
	Groups  []fieldGroup
	Problem *problem.Problem
}

// fieldGroup is a group with its link.
type fieldGroup struct {
	failures.FieldGroup
	Link string // to its failures; "": no query finds the values
}

// Keep are the parameters of the page besides the filter.
func (v byView) Keep() map[string]string { return map[string]string{"fields": v.Fields} }

// by shows the unresolved failures that match a filter by the values of fields.
func (p Pages) by(r *http.Request) (frame.Response, error) {
	query := r.URL.Query()
	zone, _ := frame.ZoneOf(r)
	v := byView{Filter: frame.ReadFilter(query, zone, frame.AllTime), Fields: strings.TrimSpace(strings.Join(query["fields"], ","))}
	if v.Fields == "" {
		return nil, problem.BadRequest("expected fields to group by", "Go back to the failures and name some, such as headers.tenant.")
	}
	shown := frame.Page{Title: "Failures by " + v.Fields, Section: "/failures", Template: "failures_by.html", Styles: []string{"failures.css"}}
	found, err := failures.GroupFailuresBy.Call(r.Context(), p.API, failures.ByInput{QueryFilter: v.Filter.API(), Fields: strings.Split(v.Fields, ",")})
	if v.Found = found.Body; err != nil {
		v.Problem = frame.ProblemOf(err)
		shown.Status = v.Problem.Status
	}
	for _, g := range v.Found.Groups {
		v.Groups = append(v.Groups, fieldGroup{g, v.link(g)})
	}
	shown.Data = v
	return shown, nil
}

// link returns the address of the failures of a group. Lists and objects are no values that a
// query finds.
func (v byView) link(g failures.FieldGroup) string {
	var all kql.And
	for i, name := range v.Found.Fields {
		value := g.Values[i]
		switch {
		case value == "":
			all = append(all, kql.Not{Node: kql.Exists{Field: kql.Pattern{name}}})
		case strings.HasPrefix(value, "[") || strings.HasPrefix(value, "{"):
			return ""
		default:
			all = append(all, kql.FieldIs(name, value))
		}
	}
	return v.Filter.With("/failures", frame.Within(v.Filter.Query, all.String()))
}
