package cli

import (
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/server/servertest"
)

// A command through a server waits for a second person, who lists and approves it by commands.
func TestApprovalsByCommands(t *testing.T) {
	t.Parallel()
	w := newWithServe(t, "WATERSHIP_APPROVALS_RULES=[{actions: [discard], approver: admin}]")
	ada, otto := w.token(t, "ada", access.Operator, false), w.token(t, "otto", access.Admin, false)
	w.through(t, ada, "publish", "--exchange", w.Exchange, "--key", "order.created", servertest.WriteFile(t, "order.json", `{"order": 1}`))
	w.Eventually(t, "action: poisoned", 1)
	discard := []string{"failed", "discard", "*", "--reason", "test data", "--yes"}
	if r := w.through(t, ada, discard...); r.Code != exitFailed || !strings.Contains(r.Err, "needs the approval of a second person") {
		t.Fatalf("%+v", r)
	}
	listed := strings.Fields(w.through(t, otto, "approvals", "list").Out)
	id := listed[len(listed)-1]
	for i, word := range listed {
		if word == "waiting" {
			id = listed[i-1]
		}
	}
	if r := w.through(t, ada, "approvals", "approve", id); r.Code != exitFailed || !strings.Contains(r.Err, "second person") {
		t.Errorf("%+v", r)
	}
	if r := w.through(t, ada, "approvals", "refuse", id); r.Code != exitUsage || !strings.Contains(r.Err, "reason") {
		t.Errorf("%+v", r)
	}
	if r := w.through(t, nil, "approvals", "approve", id); r.Code != exitUsage || !strings.Contains(r.Err, "--server") {
		t.Errorf("without a server: %+v", r)
	}
	if r := w.through(t, otto, "approvals", "approve", id); r.Code != exitOK || !strings.Contains(r.Out, `discard of ada is done: {`) {
		t.Errorf("%+v", r)
	}
	w.Eventually(t, "action: discarded", 1)
}
