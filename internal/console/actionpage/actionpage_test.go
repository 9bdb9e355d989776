package actionpage

import (
	"context"
	"fmt"
	"html/template"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/code"
	"github.com/watershipmq/watership/internal/operation/problem"
)

// request is a request of a page, whose body was read.
func request(role access.Role, form string) *http.Request {
	values, _ := url.ParseQuery(form)
	r := httptest.NewRequest(http.MethodPost, "/mend?"+form, nil)
	r.PostForm = values
	return r.WithContext(access.NewContext(r.Context(), access.Identity{Name: "ann", Role: role}))
}

// previewed shows the preview of a request.
func previewed(flow Flow[Selection, Result], r *http.Request) (frame.Response, error) {
	return flow.preview(r, r.URL.Query())
}

// mend is an action that finds some lamps, of which others may have mended one since.
func mend(matched *int, done *[]Selection) Action {
	return Action{
		Path: "/mend", Title: "Mend lamps", Section: "/lamps", Name: "mend", Unit: "lamp", Reason: "Say why.",
		Call: func(_ context.Context, _ operation.IdempotencyKey, s Selection) (Result, error) {
			found := Result{Outcome: operation.NewOutcome()}
			found.Matched, found.UpTo, found.Queues["hall"] = *matched, 7, *matched
			if s.DryRun {
				return found, nil
			}
			if *s.Expect != *matched {
				return Result{}, &problem.Problem{Code: code.ExpectMismatch, Status: http.StatusConflict}
			}
			*done = append(*done, s)
			found.Done = *matched
			found.Body = found.Outcome
			return found, nil
		},
		report: func(v View) (template.HTML, error) {
			return template.HTML(fmt.Sprintf("<p>Mended %d.</p>", v.Found.(operation.Outcome).Done)), nil
		},
	}
}

// An action changes what was shown, or nothing, and reports what it has done.
func TestActionIsAboutWhatWasShown(t *testing.T) {
	var done []Selection
	matched := 101
	a := mend(&matched, &done)
	f := &frame.Frame{}
	shown := func(response frame.Response, err error) View {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return response.(frame.Page).Data.(View)
	}
	flow := a.flow(f)
	if v := shown(previewed(flow, request(access.Operator, "q=hall&since=all"))); !v.Typed || v.Problem != nil || len(v.Queues) != 1 || v.Key == "" {
		t.Errorf("the preview: %+v", v)
	}
	const form = "q=hall&since=all&expect=101&up_to=7"
	for name, values := range map[string]string{
		"without a reason":         form + "&count=101",
		"without the typed number": form + "&reason=dark",
		"without the number":       "q=hall&reason=dark&up_to=7",
		"without the sequence":     "q=hall&reason=dark&expect=101&count=101",
	} {
		if v := shown(flow.act(request(access.Operator, values))); v.Problem == nil || v.Changed || v.Given("reason") != strings.TrimSpace(v.Form.Get("reason")) {
			t.Errorf("%s: %+v", name, v.Problem)
		}
	}
	const confirmed = form + "&reason=dark&count=101"
	matched = 100 // somebody has mended one
	if v := shown(flow.act(request(access.Operator, confirmed))); !v.Changed || v.Typed {
		t.Errorf("another number: %+v", v)
	}
	if len(done) != 0 {
		t.Fatalf("it was done: %+v", done)
	}
	matched = 101
	response, err := flow.act(request(access.Operator, confirmed))
	if err != nil || len(done) != 1 || done[0].Reason != "dark" || done[0].UpTo != 7 || done[0].Query != "hall" {
		t.Fatalf("%+v, %v", done, err)
	}
	target := string(response.(frame.Redirect))
	report := Before(f, httptest.NewRequest(http.MethodGet, target, nil))
	if report != "<p>Mended 101.</p>" || !strings.HasPrefix(target, "/lamps?") {
		t.Errorf("%s: %s", target, report)
	}
	if forged := Before(f, httptest.NewRequest(http.MethodGet, strings.Replace(target, "/lamps", "/other", 1), nil)); forged != "" {
		t.Errorf("a report on another page: %s", forged)
	}
}

// The page of a selection that cannot be read counts nothing.
func TestActionOnWhatCannotBeRead(t *testing.T) {
	var done []Selection
	matched := 0
	a := mend(&matched, &done)
	response, err := previewed(a.flow(nil), request(access.Operator, "q=hall"))
	if err != nil || response.(frame.Page).Data.(View).Unread {
		t.Errorf("none matches: %+v, %v", response, err)
	}
	a.Call = func(context.Context, operation.IdempotencyKey, Selection) (Result, error) {
		return Result{}, problem.BadRequest("expected a value", "")
	}
	response, err = previewed(a.flow(nil), request(access.Operator, "q=hall"))
	if page := response.(frame.Page); err != nil || !page.Data.(View).Unread || page.Status != http.StatusBadRequest {
		t.Errorf("a mistake in the query: %+v, %v", page, err)
	}
}

func TestActionNeedsASelectionAndARole(t *testing.T) {
	var done []Selection
	matched := 1
	a := mend(&matched, &done)
	byGroup := a
	byGroup.ByGroup = true
	for name, test := range map[string]struct {
		action Action
		role   access.Role
		form   string
		want   string
	}{
		"nothing selected": {a, access.Operator, "", "no lamp is selected"},
		"no group":         {byGroup, access.Operator, "q=hall", "no group is selected"},
		"a viewer":         {a, access.Viewer, "q=hall", "a mend needs operator"},
	} {
		if _, err := previewed(test.action.flow(nil), request(test.role, test.form)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := test.action.flow(nil).act(request(test.role, test.form)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s, posted: %v", name, err)
		}
	}
	v := View{Action: byGroup, Groups: []string{"k3f7"}, IDs: []string{"x"}}
	if got := v.Return(); got != "/lamps?view=list" {
		t.Error(got)
	}
	if v.BackToAll = true; v.Return() != "/lamps" {
		t.Error(v.Return())
	}
}
