package httpapi_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/code"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// newApproved is a system in which some actions need a second person.
func newApproved(t *testing.T) (ada, otto served) {
	t.Helper()
	tokens := filepath.Join(t.TempDir(), "tokens.json")
	if _, err := access.OpenTokenFile(tokens).Create(access.Token{Name: "first", Role: access.Viewer}); err != nil {
		t.Fatal(err)
	}
	s := newSystem(t, rabbittest.Embedded(t), "WATERSHIP_HTTP_AUTH_TOKENS_FILE="+tokens,
		`WATERSHIP_APPROVALS_RULES=[{actions: [replay], above: 1}, {actions: [edit, policy], approver: admin}, {actions: [discard], roles: [operator]}, {actions: [discard], targets: ["pay*"]}]`)
	ada, otto = s, s
	otto.rig = s.as(t, access.Token{Name: "otto", Role: access.Operator})
	return ada, otto
}

// approvals returns the approvals in a state.
func (r rig) approvals(t *testing.T, state string) (list []map[string]any) {
	t.Helper()
	all, _ := r.get(t, "/approvals")["approvals"].([]any)
	for _, a := range all {
		if a := a.(map[string]any); a["state"] == state {
			list = append(list, a)
		}
	}
	return list
}

func (r rig) decide(t *testing.T, approval any, decision string) response {
	t.Helper()
	return r.do(t, http.MethodPost, fmt.Sprintf("/approvals/%v/decide", approval), `{"decision":"`+decision+`","reason":"looked at"}`)
}

const replayAll = `{"query":"action: poisoned and queue: orders","target":{"kind":"failed_queue"},"reason":"fixed"}`

// A replay of many waits until somebody else approves it, and sends exactly those that were counted.
func TestReplayIsApproved(t *testing.T) {
	t.Parallel()
	ada, otto := newApproved(t)
	ada.fail(t, "m-1", "m-2")
	ada.recorder.take("")
	for range 2 { // the second is the same request
		ada.do(t, http.MethodPost, "/replays", replayAll).wantCode(t, code.NeedsApproval, "replay of 2 messages needs the approval of a second person")
	}
	waiting := otto.approvals(t, "waiting")
	if len(waiting) != 1 || waiting[0]["by"] != "ada" || waiting[0]["matched"] != 2.0 || fmt.Sprint(waiting[0]["targets"]) != "[orders]" || waiting[0]["reason"] != "fixed" {
		t.Fatalf("%v", waiting)
	}
	if jobs, _ := ada.get(t, "/replays")["jobs"].([]any); len(jobs) > 0 {
		t.Errorf("it is sent before: %v", jobs)
	}
	id := waiting[0]["id"]
	ada.decide(t, id, "approve").wantProblem(t, http.StatusForbidden, "a second person has to approve it")
	ada.as(t, access.Token{Name: "vera", Role: access.Viewer}).decide(t, id, "approve").wantProblem(t, http.StatusForbidden, "needs operator")
	ada.as(t, access.Token{Name: "lena", Role: access.Operator, Queues: []string{"orders"}}).decide(t, id, "approve").wantProblem(t, http.StatusForbidden, "limited")
	ada.fail(t, "m-3") // nobody has approved it
	if approved := otto.decide(t, id, "approve"); approved.StatusCode != http.StatusOK || approved.json(t)["state"] != "done" {
		t.Fatalf("%s %s", approved.Status, approved.body)
	}
	otto.decide(t, id, "approve").wantCode(t, code.HasEnded, "is done")
	eventually(t, "both are handled", func() bool { return ada.handled.Load() == 2 })
	jobs, _ := ada.get(t, "/replays")["jobs"].([]any)
	if len(jobs) != 1 || member(jobs[0], "operator") != "ada" || member(jobs[0], "total") != 2.0 {
		t.Errorf("%v", jobs)
	}
	ada.recorder.mu.Lock()
	defer ada.recorder.mu.Unlock()
	var audited []string
	for _, made := range ada.recorder.records {
		if made.Done() || made.Action.Name == "ask for approval" {
			object, _, _ := strings.Cut(strings.NewReplacer(fmt.Sprint(id), "ID", fmt.Sprint(member(jobs[0], "id")), "JOB").Replace(made.Action.Object), " and ")
			audited = append(audited, strings.TrimSpace(fmt.Sprintf("%s %s: %s %s", made.Identity.Name, made.Action.Name, object, made.Identity.Client)))
		}
	}
	for _, want := range []string{"ada ask for approval: approval ID: replay of 2 messages", "otto approve: approval ID: replay of 2 messages of ada", "ada replay: approval ID approved by otto: job JOB"} {
		if !slices.Contains(audited, want) {
			t.Errorf("%q is not in %q", want, audited)
		}
	}
}

// Rules are about actions, roles and queues: what none is about is done at once.
func TestRulesOfApprovals(t *testing.T) {
	t.Parallel()
	ada, otto := newApproved(t)
	ada.fail(t, "m-1", "m-2")
	otto.do(t, http.MethodPost, "/failures/discard", `{"ids":["m-1"],"reason":"a test"}`).wantCode(t, code.NeedsApproval, "discard of 1 message")
	if dry := otto.post(t, "/failures/discard", `{"ids":["m-1"],"dry_run":true}`); dry["matched"] != 1.0 {
		t.Errorf("a dry run: %v", dry)
	}
	if done := ada.post(t, "/failures/discard", `{"ids":["m-1"],"reason":"a test"}`); done["done"] != 1.0 {
		t.Errorf("by an admin: %v", done)
	}
	refused := otto.approvals(t, "waiting")[0]["id"]
	ada.do(t, http.MethodPost, fmt.Sprintf("/approvals/%v/decide", refused), `{"decision":"refuse"}`).wantProblem(t, http.StatusUnprocessableEntity, "validation failed")
	if got := ada.decide(t, refused, "refuse").json(t); got["state"] != "refused" || got["decider"] != "ada" || got["note"] != "looked at" {
		t.Errorf("%v", got)
	}
	ada.do(t, http.MethodPost, "/replays", `{"ids":["m-2"],"target":{"kind":"failed_queue"},"changes":{"set_headers":["a=b"]},"reason":"mended"}`).
		wantCode(t, code.NeedsApproval, "edit of 1 message")
	edit := ada.approvals(t, "waiting")[0]["id"]
	otto.decide(t, edit, "approve").wantProblem(t, http.StatusForbidden, "needs admin")
	ada.post(t, "/replays", `{"ids":["m-2"],"target":{"kind":"failed_queue"},"reason":"only one"}`)
	eventually(t, "it is handled", func() bool { return ada.handled.Load() == 1 })
	eve := ada.as(t, access.Token{Name: "eve", Role: access.Admin})
	if gone := eve.decide(t, edit, "approve"); gone.StatusCode != http.StatusConflict || len(eve.approvals(t, "failed")) != 1 {
		t.Errorf("what was counted is not there any more: %s %s", gone.Status, gone.body)
	}
	eve.decide(t, "nobody", "approve").wantProblem(t, http.StatusNotFound, "no approval nobody")
}

// A policy waits as messages do, and its change is the one that was planned.
func TestPolicyIsApproved(t *testing.T) {
	t.Parallel()
	ada, _ := newApproved(t)
	if _, err := ada.broker.Channel(t).QueueDeclare("invoices", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	ada.do(t, http.MethodPost, "/routes/invoices/add", `{"reason":"retries"}`).wantCode(t, code.NeedsApproval, "policy of 1 queue")
	waiting := ada.approvals(t, "waiting")[0]
	if fmt.Sprint(waiting["targets"]) != "[invoices]" || member(waiting["request"], "digest") == nil {
		t.Errorf("%v", waiting)
	}
	eve := ada.as(t, access.Token{Name: "eve", Role: access.Admin})
	if got := eve.decide(t, waiting["id"], "approve").json(t); got["state"] != "done" || !strings.Contains(fmt.Sprint(got["result"]), `"done":true`) {
		t.Errorf("%v", got)
	}
}

// An agent asks for an approval, and has no tool that gives one.
func TestAgentAsksForApproval(t *testing.T) {
	t.Parallel()
	ada, otto := newApproved(t)
	ada.fail(t, "m-1", "m-2")
	agent := ada.agent(t)
	_, acts := toolsOf(t, agent)
	if slices.ContainsFunc(acts, func(name string) bool { return strings.Contains(strings.ToLower(name), "approv") }) {
		t.Errorf("an agent has %q", acts)
	}
	number := planBy(t, agent, "startReplay", map[string]any{"query": "action: poisoned and queue: orders", "target": map[string]any{"kind": "failed_queue"}, "reason": "fixed"})
	text, failed := use(t, agent, "startReplay", map[string]any{"plan": number})
	waiting := otto.approvals(t, "waiting")
	if !failed || !strings.Contains(text, "needs_approval") || len(waiting) != 1 || waiting[0]["client"] != "bot 7" {
		t.Errorf("%s: %v", text, waiting)
	}
	if read, _ := use(t, agent, "listApprovals", nil); !strings.Contains(read, fmt.Sprint(waiting[0]["id"])) {
		t.Errorf("an agent sees %s", read)
	}
}

// A program may have the body that somebody has written, so who may not read bodies neither sees nor approves it.
func TestProgramsOfApprovalsAreHidden(t *testing.T) {
	t.Parallel()
	ada, _ := newApproved(t)
	ada.fail(t, "m-1")
	ada.do(t, http.MethodPost, "/replays", `{"ids":["m-1"],"target":{"kind":"failed_queue"},"transform":".body.order = 4711","reason":"mended"}`).wantCode(t, code.NeedsApproval, "edit of 1 message")
	eve := ada.as(t, access.Token{Name: "eve", Role: access.Admin})
	ella := ada.as(t, access.Token{Name: "ella", Role: access.Admin, Bodies: true})
	id := ella.approvals(t, "waiting")[0]["id"]
	shown := func(of rig, state string) string { return fmt.Sprint(of.approvals(t, state)) }
	if !strings.Contains(shown(ella, "waiting"), "4711") || strings.Contains(shown(eve, "waiting"), "4711") || !strings.Contains(shown(eve, "waiting"), "hidden") {
		t.Errorf("%s\n%s", shown(ella, "waiting"), shown(eve, "waiting"))
	}
	eve.decide(t, id, "approve").wantProblem(t, http.StatusForbidden, "may not read bodies")
	if got := ella.decide(t, id, "approve").json(t); got["state"] != "done" {
		t.Fatalf("%v", got)
	}
	if !strings.Contains(shown(ella, "done"), "4711") || strings.Contains(shown(eve, "done"), "4711") {
		t.Errorf("%s\n%s", shown(ella, "done"), shown(eve, "done"))
	}
}

// A request is kept with the times at which it was asked, and with no limit that could take others.
func TestApprovedMessagesStayTheSame(t *testing.T) {
	t.Parallel()
	ada, otto := newApproved(t)
	ada.fail(t, "m-1", "m-2", "m-3")
	ask := func(more string) response {
		return ada.do(t, http.MethodPost, "/replays", `{"query":"action: poisoned and @timestamp >= now-1h","target":{"kind":"failed_queue"},"reason":"fixed"`+more+`}`)
	}
	ask(`,"limit":2`).wantProblem(t, http.StatusBadRequest, "limit leaves out 1 message")
	ask(`,"since":"1h"`).wantCode(t, code.NeedsApproval, "replay of 3 messages")
	waiting := otto.approvals(t, "waiting")[0]
	kept := waiting["request"]
	if member(kept, "since") != nil || member(kept, "from") == nil || strings.Contains(fmt.Sprint(member(kept, "query")), "now") {
		t.Errorf("%v", kept)
	}
	ask(`,"since":"1h"`).wantCode(t, code.NeedsApproval, fmt.Sprint(waiting["id"]))
	if got := otto.decide(t, waiting["id"], "approve").json(t); got["state"] != "done" {
		t.Errorf("%v", got)
	}
	eventually(t, "all are handled", func() bool { return ada.handled.Load() == 3 })
}
