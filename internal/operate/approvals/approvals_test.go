package approvals

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/internal/operate/routes"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/code"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/system/systemtest"
)

func TestEdits(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]bool{
		`{}`: false, `{"changes":{}}`: false, `{"changes":{"keep_reply_to":true}}`: false,
		`{"changes":{"set_headers":["a=b"]}}`: true, `{"transform":".body"}`: true,
	} {
		var r request
		if err := json.Unmarshal([]byte(`{"Body":`+body+`}`), &r); err != nil {
			t.Fatal(err)
		}
		if isEdit(r) != want {
			t.Errorf("%s is an edit: %v", body, !want)
		}
	}
	if actionOf(&routes.AddRoute.Operation) != Policy || actionOf(&replays.PlanReplay.Operation) != "" {
		t.Error("a change of policies waits, a plan does not")
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	operator := access.Identity{Name: "otto", Role: access.Operator}
	for _, test := range []struct {
		rule    config.ApprovalRule
		targets []string
		want    bool
	}{
		{config.ApprovalRule{}, nil, true},
		{config.ApprovalRule{Actions: []string{"replay"}, Roles: []string{"operator"}}, nil, true},
		{config.ApprovalRule{Actions: []string{"edit", "policy"}}, nil, false},
		{config.ApprovalRule{Roles: []string{"admin"}}, nil, false},
		{config.ApprovalRule{Targets: []string{"pay*", "books"}}, []string{"orders", "payments"}, true},
		{config.ApprovalRule{Targets: []string{"pay*"}}, []string{"orders", "repay"}, false},
		{config.ApprovalRule{Targets: []string{"pay*"}}, nil, false},
	} {
		if got := concerns(test.rule, Replay, operator) && matches(test.rule.Targets, test.targets); got != test.want {
			t.Errorf("%+v, %q: %v", test.rule, test.targets, got)
		}
	}
}

// Who decides is somebody else with the role, no agent, and in time.
func TestWhoMayDecide(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 4, 3, 0, 0, 0, time.UTC)
	ada := access.Identity{Name: "ada", Method: access.ByToken, Role: access.Admin}
	asked := record{Approval: Approval{ID: "a", State: Waiting, Needs: access.Operator, Expires: now}, Asker: ada}
	justNow, before := now.Add(-decideTimeout/2), now.Add(-decideTimeout)
	for name, test := range map[string]struct {
		caller  access.Identity
		verb    string
		at      time.Time
		state   State
		status  int        // 0: the caller may
		decided *time.Time // nil: it was not
		request string     // as JSON
	}{
		"somebody else":                 {access.Identity{Name: "otto", Method: access.ByToken, Role: access.Operator}, "approve", now, Waiting, 0, nil, ""},
		"the same name of another kind": {access.Identity{Name: "ada", Method: access.ByOIDC, Role: access.Operator}, "approve", now, Waiting, 0, nil, ""},
		"who asks":                      {ada, "approve", now, Waiting, http.StatusForbidden, nil, ""},
		"who asks, to withdraw it":      {ada, "refuse", now, Waiting, 0, nil, ""},
		"without the role":              {access.Identity{Name: "vera", Role: access.Viewer}, "approve", now, Waiting, http.StatusForbidden, nil, ""},
		"an agent":                      {access.Identity{Name: "otto", Role: access.Admin, Client: "bot 7"}, "approve", now, Waiting, http.StatusForbidden, nil, ""},
		"with limits":                   {access.Identity{Name: "lena", Role: access.Admin, Queues: []string{"*"}}, "approve", now, Waiting, http.StatusForbidden, nil, ""},
		"too late":                      {access.Identity{Name: "otto", Role: access.Operator}, "approve", now.Add(1), Waiting, http.StatusConflict, nil, ""},
		"after a refusal":               {access.Identity{Name: "otto", Role: access.Operator}, "approve", now, Refused, http.StatusConflict, nil, ""},
		"what was not done":             {access.Identity{Name: "otto", Role: access.Operator}, "approve", now, Approved, 0, &before, ""},
		"what is being done":            {access.Identity{Name: "otto", Role: access.Operator}, "approve", now, Approved, http.StatusConflict, &justNow, ""},
		"what was approved":             {access.Identity{Name: "otto", Role: access.Operator}, "refuse", now, Approved, http.StatusConflict, nil, ""},
		"a program":                     {access.Identity{Name: "otto", Role: access.Operator, Bodies: true}, "approve", now, Waiting, 0, nil, `{"transform":"."}`},
		"a program that is hidden":      {access.Identity{Name: "otto", Role: access.Operator}, "approve", now, Waiting, http.StatusForbidden, nil, `{"transform":"."}`},
	} {
		asked.State, asked.Decided, asked.Request = test.state, test.decided, json.RawMessage(test.request)
		at := asked
		at.Approval = asked.at(test.at)
		err := mayDecide(test.caller, at, test.verb, test.at)
		var refused interface {
			error
			GetStatus() int
		}
		switch {
		case test.status == 0 && err != nil:
			t.Errorf("%s: %v", name, err)
		case test.status != 0 && (!errors.As(err, &refused) || refused.GetStatus() != test.status):
			t.Errorf("%s: %v, want %d", name, err, test.status)
		}
	}
}

// Approvals are kept for 30 days after they have ended.
func TestOldApprovalsAreDeleted(t *testing.T) {
	t.Parallel()
	sys, _ := systemtest.Embedded(t)
	s := Service{System: sys}
	store, err := sys.Store(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, age := range []time.Duration{0, keptFor - time.Hour, keptFor + time.Hour} {
		id := fmt.Sprint(i)
		old := record{Approval: Approval{ID: id, State: Waiting, Needs: access.Operator, Expires: time.Now().Add(-age), Created: time.Now().Add(-age)}, Asker: access.AsOperator("ada")}
		if _, err := eventstore.SaveRecord(t.Context(), store, recordKind, id, "", old); err != nil {
			t.Fatal(err)
		}
	}
	list, err := s.records(t.Context())
	if err != nil || len(list) != 3 || list[0].ID != "0" || list[1].State != Expired {
		t.Fatalf("%+v, %v", list, err)
	}
	if err := s.deleteOld(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	if list, err := s.records(t.Context()); err != nil || len(list) != 2 || list[1].ID != "1" {
		t.Errorf("%+v, %v", list, err)
	}
}

// An approval that was not done ends before its replay could be sent a second time.
func TestApprovedEnds(t *testing.T) {
	t.Parallel()
	decided := time.Date(2026, 5, 4, 3, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		expires, after time.Duration
		want           State
	}{
		{time.Hour, time.Hour, Approved},
		{time.Hour, time.Hour + 1, Failed},
		{time.Minute, decideTimeout, Approved}, // it may be in the making
		{time.Minute, decideTimeout + 1, Failed},
		{30 * 24 * time.Hour, replays.KeyAge, Approved},
		{30 * 24 * time.Hour, replays.KeyAge + 1, Failed},
	} {
		a := Approval{State: Approved, Decided: &decided, Expires: decided.Add(test.expires)}
		if got := a.at(decided.Add(test.after)); got.State != test.want || strings.Contains(got.Result, "unknown") != (test.want == Failed) {
			t.Errorf("%v after a decision, %v before the end: %s %q", test.after, test.expires, got.State, got.Result)
		}
	}
}

// A route of the default exchange is a queue, and routes that a plan does not list may be any.
func TestTargetsOfReplays(t *testing.T) {
	t.Parallel()
	many := make([]replays.PlanRoute, replays.MaxPlanRoutes)
	for i := range many {
		many[i].Queue = fmt.Sprint("orders-", i)
	}
	for name, test := range map[string]struct {
		routes []replays.PlanRoute
		want   bool
	}{
		"a queue":              {[]replays.PlanRoute{{Queue: "orders"}, {Queue: "payments"}}, true},
		"another":              {[]replays.PlanRoute{{Queue: "orders", RoutingKey: "payments"}}, false},
		"the default exchange": {[]replays.PlanRoute{{RoutingKey: "payments"}}, true},
		"many":                 {many[1:], false},
		"too many":             {many, true},
		"other routing keys":   {[]replays.PlanRoute{{Exchange: "shop", Others: true}}, true},
	} {
		if got := (plan{Routes: test.routes}).matches([]string{"pay*"}, request{}); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// What no rule is about is done as it was counted, and its number is that of the caller, if it has one.
func TestRequestsAreBound(t *testing.T) {
	t.Parallel()
	five := 5
	in := replays.StartInput{Body: replays.Replay{Reason: "fixed", Expect: &five}}
	if err := (plan{Matched: 2, Expect: 2, UpTo: json.RawMessage("17")}).bind(&in); err != nil {
		t.Fatal(err)
	}
	if in.Body.Expect == nil || *in.Body.Expect != 2 || in.Body.UpTo != 17 || in.Body.Reason != "fixed" {
		t.Errorf("%+v", in.Body)
	}
}

// A request that is repeated with another key is the same.
func TestDigestIsWithoutKey(t *testing.T) {
	t.Parallel()
	digest := func(key, query string) string {
		got, err := digestOf(&replays.StartReplay.Operation, request{Key: key, Body: map[string]json.RawMessage{"query": json.RawMessage(query)}}, access.AsOperator("ada"))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if digest("a", `"*"`) != digest("b", `"*"`) || digest("a", `"*"`) == digest("a", `"orders"`) {
		t.Error("a digest is of the request without its key")
	}
}

// One who asks does not keep others from asking.
func TestWaitingIsBoundedForEach(t *testing.T) {
	t.Parallel()
	sys, _ := systemtest.Embedded(t)
	s := Service{System: sys}
	ask := func(name string, i int) error {
		id := fmt.Sprint(name, i)
		return s.wait(t.Context(), record{Approval: Approval{ID: id, State: Waiting, Needs: access.Operator, Expires: time.Now().Add(time.Hour), By: name}, Asker: access.AsOperator(name), Digest: id})
	}
	for i := range maxWaitingEach {
		if err := ask("ada", i); !isCode(err, code.NeedsApproval) {
			t.Fatal(err)
		}
	}
	if err := ask("ada", maxWaitingEach); !isCode(err, code.Conflict) {
		t.Errorf("one more: %v", err)
	}
	if err := ask("otto", 0); !isCode(err, code.NeedsApproval) {
		t.Errorf("of somebody else: %v", err)
	}
}

func isCode(err error, want code.Code) bool {
	var p *problem.Problem
	return errors.As(err, &p) && p.Code == want
}

// A result is saved although its audit event is not, and only by who has decided last.
func TestResultIsOfTheDecision(t *testing.T) {
	t.Parallel()
	sys, _ := systemtest.Embedded(t)
	o := operations{Service{sys, operation.NewLocal()}}
	store, err := sys.Store(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC()
	before := now.Add(-decideTimeout)
	mine := record{Approval: Approval{ID: "a", State: Approved, Needs: access.Operator, Decider: "otto", Decided: &now, Expires: now.Add(time.Hour)}, Asker: access.AsOperator("ada")}
	if _, err := eventstore.SaveRecord(t.Context(), store, recordKind, "a", "", mine); err != nil {
		t.Fatal(err)
	}
	state := func() State {
		list, err := o.records(t.Context())
		if err != nil || len(list) != 1 {
			t.Fatalf("%+v, %v", list, err)
		}
		return list[0].State
	}
	theirs := mine
	theirs.Decided = &before
	if _, err := o.do(t.Context(), theirs); err == nil || state() != Approved {
		t.Errorf("of an earlier decision: %s, %v", state(), err)
	}
	if _, err := o.do(t.Context(), mine); err == nil || state() != Failed { // nothing was done without an audit event
		t.Errorf("%s, %v", state(), err)
	}
}
