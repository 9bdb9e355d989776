package triagepage

import (
	"net/http"
	"net/url"

	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/operation/problem"
)

// whyView is the part of the page of a group that says what distinguishes its failures.
type whyView struct {
	failures.Why
	Late    bool   // it is read later, since a comparison takes its time
	Wait    string // link to the page that waits for it
	Problem *problem.Problem
	Causes  []cause
}

// cause is a cause with its links.
type cause struct {
	failures.Cause
	Failed, Others string // to the messages; "": no query finds them
}

// why compares the failures of a group, if the page waits for that.
func (p Pages) why(r *http.Request, group string) whyView {
	v := whyView{Wait: frame.WaitLink(r)}
	if v.Late = !r.URL.Query().Has(frame.WaitParameter); v.Late {
		return v
	}
	found, err := failures.ExplainFailures.Call(r.Context(), p.API, failures.WhyInput{Of: group})
	if v.Why = found.Body; err != nil {
		v.Problem = frame.ProblemOf(err)
	}
	for _, c := range found.Body.Causes {
		v.Causes = append(v.Causes, cause{Cause: c, Failed: messagesOf(c.Failures.Query), Others: messagesOf(c.Handled.Query)})
	}
	return v
}

// messagesOf returns the address of the messages of a query; "" for none.
func messagesOf(query string) string {
	if query == "" {
		return ""
	}
	return "/messages?" + url.Values{"q": {query}, "since": {frame.AllTime}}.Encode()
}
