package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/render/reason"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

func TestTriageOfGroups(t *testing.T) { onEvery(t, testTriageOfGroups) }

func testTriageOfGroups(t *testing.T, s served) {
	s.fail(t, "m-1", "m-2")
	list := s.get(t, "/failures/groups")
	group, _ := list["groups"].([]any)[0].(map[string]any)
	id, _ := group["id"].(string)
	path := "/failures/groups/" + id
	s.decidedByTwo(t, path)
	s.post(t, path+"/triage", `{"decision":"noted","reason":"once"}`, "Idempotency-Key", "n")
	s.post(t, path+"/triage", `{"decision":"noted","reason":"once"}`, "Idempotency-Key", "n")
	s.post(t, path+"/triage", `{"decision":"muted","count":1,"reason":"one is expected"}`)
	got := s.get(t, path)
	if notes, _ := got["notes"].([]any); len(notes) != 11 || member(notes[10], "text") != "once" || member(notes[10], "by") != "ada" {
		t.Errorf("notes are %v", notes)
	}
	if list := s.get(t, "/failures/groups"); list["muted"] != 1.0 || list["failures"] != 0.0 {
		t.Errorf("while it is muted: %v", list)
	}
	if list := s.get(t, "/failures/groups?muted=true"); list["muted"] != 0.0 || list["failures"] != 2.0 {
		t.Errorf("with muted groups: %v", list)
	}
	for _, test := range []struct{ body, want string }{
		{`{"decision":"muted","reason":"x"}`, "expected a time or a number"},
		{`{"decision":"muted","count":1}`, "expected a reason"},
		{`{"decision":"assigned"}`, "assignee"},
		{`{"decision":"assigned","assignee":"ada","count":1}`, "assigned has no count"},
		{`{"decision":"assigned","assignee":"ada","until":"2999-01-01T00:00:00Z"}`, "assigned has no time"},
		{`{"decision":"muted","count":1,"reason":"x","assignee":"ada"}`, "muted has no assignee"},
	} {
		s.do(t, http.MethodPost, path+"/triage", test.body).wantProblem(t, http.StatusBadRequest, test.want)
	}
	s.do(t, http.MethodPost, path+"/triage", `{"decision":"resolved","reason":"x"}`).wantProblem(t, http.StatusUnprocessableEntity, "")
	s.do(t, http.MethodPost, "/failures/groups/nobody/triage", `{"decision":"unmuted"}`).wantProblem(t, http.StatusNotFound, "nobody")
	s.nothingToDecide(t, path)
	s.longTexts(t, path)
	s.triageOfLimitedCallers(t, path, id)
	s.triageInSearches(t, group)
	s.do(t, http.MethodPost, "/failures/resolve", `{"groups":["`+id+`"],"reason":"fixed","expect":7}`).wantProblem(t, http.StatusConflict, "2 failures match, 7 expected")
	if dry := s.post(t, "/failures/resolve", `{"groups":["`+id+`"],"dry_run":true}`); dry["matched"] != 2.0 || dry["done"] != 0.0 {
		t.Errorf("%v", dry)
	}
	s.do(t, http.MethodPost, "/failures/resolve", `{"groups":["`+id+`"],"reason":" ","expect":2}`).wantProblem(t, http.StatusUnprocessableEntity, "validation failed")
	done := s.post(t, "/failures/resolve", `{"groups":["`+id+`"],"reason":"fixed","expect":2,"up_to":9007199254740992}`)
	if resolved, _ := done["resolved"].([]any); done["done"] != 2.0 || len(resolved) != 1 || resolved[0] != id || done["missing"] != 0.0 {
		t.Errorf("%v", done)
	}
	if got := s.get(t, path); got["count"] != 0.0 || member(got, "resolved", "reason") != "fixed" || got["regressed"] != false || got["muted"] != nil {
		t.Errorf("after it was resolved: %v", got)
	}
	s.fail(t, "m-3")
	if got := s.get(t, path); got["count"] != 1.0 || got["regressed"] != true {
		t.Errorf("after it failed again: %v", got)
	}
}

// nothingToDecide records no event of a decision that changes nothing. The group is muted and
// assigned.
func (s served) nothingToDecide(t *testing.T, path string) {
	t.Helper()
	own := s.get(t, path)
	for _, decision := range []string{"unmuted", "unassigned"} {
		for n, unchanged := range []bool{false, true, true} {
			if got := s.post(t, path+"/triage", `{"decision":"`+decision+`"}`); got["unchanged"] != unchanged || got["missing"] != 0.0 {
				t.Errorf("%s, time %d: %v", decision, n+1, got)
			}
		}
		if n := s.get(t, "/events/count"+query("query", "watership.triage.decision: "+decision))["count"]; n != 1.0 {
			t.Errorf("%v events of %s", n, decision)
		}
	}
	s.post(t, path+"/triage", fmt.Sprintf(`{"decision":"assigned","assignee":%q}`, own["assignee"]))
	if got := s.post(t, path+"/triage", `{"decision":"muted","count":1,"reason":"one is expected"}`); got["unchanged"] != false {
		t.Errorf("%v", got)
	}
}

// longTexts keeps texts of as many characters as the schema allows, whatever their bytes.
func (s served) longTexts(t *testing.T, path string) {
	t.Helper()
	note, name := strings.Repeat("🐇", reason.Max), strings.Repeat("ö", 200)
	s.post(t, path+"/triage", fmt.Sprintf(`{"decision":"noted","reason":%q}`, note))
	s.post(t, path+"/triage", fmt.Sprintf(`{"decision":"assigned","assignee":%q}`, name))
	got := s.get(t, path)
	notes, _ := got["notes"].([]any)
	if text := member(notes[len(notes)-1], "text"); text != note || got["assignee"] != name {
		t.Errorf("%v, %v", text, got["assignee"])
	}
	s.do(t, http.MethodPost, path+"/triage", fmt.Sprintf(`{"decision":"noted","reason":%q}`, note+"x")).wantProblem(t, http.StatusUnprocessableEntity, "validation failed")
}

// decidedByTwo lets two operators decide at the same time. No decision is lost.
func (s served) decidedByTwo(t *testing.T, path string) {
	t.Helper()
	ann, bob := s.as(t, access.Token{Name: "ann", Role: access.Operator}), s.as(t, access.Token{Name: "bob", Role: access.Operator})
	var both sync.WaitGroup
	for name, operator := range map[string]rig{"ann": ann, "bob": bob} {
		both.Go(func() {
			for n := range 5 {
				for _, body := range []string{fmt.Sprintf(`{"decision":"noted","reason":"%d"}`, n), fmt.Sprintf(`{"decision":"assigned","assignee":"%s-%d"}`, name, n)} {
					if got := operator.do(t, http.MethodPost, path+"/triage", body); got.StatusCode != http.StatusOK {
						t.Errorf("%s: %s", got.Status, got.body)
					}
				}
			}
		})
	}
	both.Wait()
	got := s.get(t, path)
	by := map[any]int{}
	notes, _ := got["notes"].([]any)
	for _, note := range notes {
		by[member(note, "by")]++
	}
	if by["ann"] != 5 || by["bob"] != 5 || got["assignee"] != "ann-4" && got["assignee"] != "bob-4" {
		t.Errorf("%v", got)
	}
}

func (s served) triageOfLimitedCallers(t *testing.T, path, id string) {
	t.Helper()
	other := s.as(t, access.Token{Name: "carol", Role: access.Operator, Queues: []string{"mails"}})
	other.do(t, http.MethodGet, path, "").wantProblem(t, http.StatusNotFound, id)
	other.do(t, http.MethodPost, path+"/triage", `{"decision":"unmuted"}`).wantProblem(t, http.StatusNotFound, id)
	other.do(t, http.MethodPost, "/failures/resolve", `{"groups":["`+id+`"],"reason":"mine"}`).wantProblem(t, http.StatusNotFound, id)
	if got := other.post(t, "/failures/resolve", `{"query":"*","reason":"mine"}`); got["matched"] != 0.0 {
		t.Errorf("carol may resolve %v", got)
	}
	if got := other.get(t, "/failures/by?fields=headers.tenant"); got["failures"] != 0.0 {
		t.Errorf("carol sees %v", got)
	}
	own := s.as(t, access.Token{Name: "dan", Role: access.Operator, Queues: []string{"ord*"}})
	own.post(t, path+"/triage", `{"decision":"assigned","assignee":"dan"}`)
	if got := own.get(t, path); got["assignee"] != "dan" || member(got, "muted", "count") != 1.0 {
		t.Errorf("dan sees %v", got)
	}
	own.do(t, http.MethodGet, "/failures/by?fields=body.json.order", "").wantProblem(t, http.StatusForbidden, "bodies")
	if got := own.get(t, "/failures/by?fields=queue&fields=headers.tenant"); fmt.Sprint(got["fields"]) != "[watership.queue headers.tenant]" {
		t.Errorf("%v", got)
	}
	viewer := s.as(t, access.Token{Name: "vic", Role: access.Viewer})
	viewer.do(t, http.MethodPost, path+"/triage", `{"decision":"unmuted"}`).wantProblem(t, http.StatusForbidden, "viewer")
	if got := s.get(t, "/failures/by?fields=body.json.order,headers.tenant"); got["failures"] != 2.0 || fmt.Sprint(member(got["groups"].([]any)[0], "values")) != "[1 acme]" {
		t.Errorf("%v", got)
	}
}

// triageInSearches finds decisions by the fields of the failures, and no decision of somebody
// who publishes a message that looks like one.
func (s served) triageInSearches(t *testing.T, group map[string]any) {
	t.Helper()
	kind := history.Kind{Queue: "orders", Class: fmt.Sprint(group["class"]), Type: fmt.Sprint(group["type"]), Group: fmt.Sprint(group["error_group"])}
	change := failures.Change{Decision: failures.Assigned, Assignee: "mallory"}
	forged := wire.DefaultFrameMax.Wrap(schemas.Envelope{}, change.Event(kind, "mallory", time.Now()))
	if err := s.broker.Channel(t).PublishWithContext(t.Context(), "shop", string(schemas.Triaged), false, false, forged); err != nil {
		t.Fatal(err)
	}
	count := func(q string) any { return s.get(t, "/events/count"+query("query", q))["count"] }
	eventually(t, "the forged message is stored", func() bool { return count("action: published and routing_key: triaged") == 1.0 })
	same := fmt.Sprintf("watership.queue: orders and error.type: %q and watership.class: %q and watership.error_group: %q", kind.Type, kind.Class, kind.Group)
	for q, want := range map[string]float64{
		same + " and action: poisoned":                    2,
		same + " and action: triaged":                     29,
		"action: triaged and user.name: ada":              8,
		"watership.triage.decision: muted":                2,
		"watership.triage.assignee: dan":                  1,
		"watership.triage.count >= 1":                     2,
		"watership.triage.assignee: mallory":              0,
		"user.name: mallory":                              0,
		"watership.triage.group: " + kind.ID():            29,
		"action: triaged and event.reason: *is expected*": 2,
	} {
		if got := count(q); got != want {
			t.Errorf("%s: %v, want %v", strings.TrimSpace(q), got, want)
		}
	}
}
