package approvals

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/internal/operate/routes"
	"github.com/watershipmq/watership/internal/operate/subjects"
	"github.com/watershipmq/watership/internal/operate/waiting"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/code"
	"github.com/watershipmq/watership/internal/operation/idempotency"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/render/wording"
)

// Action is a kind of action that may need an approval.
type Action string

// The actions.
const (
	Replay  Action = "replay"
	Edit    Action = "edit" // a replay that changes its messages
	Discard Action = "discard"
	Waits   Action = "waiting" // a decision about waiting messages
	Policy  Action = "policy"  // of RabbitMQ, for a queue
	Erase   Action = "erase"   // the key of a subject is destroyed
)

// request is the input of an operation as it is kept. All operations that may need an approval have this form.
type request struct {
	Key   string `json:",omitempty"`
	Queue string `json:",omitempty"`
	Body  map[string]json.RawMessage
}

// actionOf returns the action of an operation; "": it needs no approval.
func actionOf(op *operation.Operation) Action {
	switch op.ID {
	case replays.StartReplay.ID:
		return Replay
	case failures.DiscardFailures.ID, failures.ResolveFailures.ID:
		return Discard
	case waiting.DecideWaiting.ID:
		return Waits
	case routes.AddRoute.ID, routes.RemoveRoute.ID:
		return Policy
	case subjects.EraseSubject.ID:
		return Erase
	}
	return ""
}

// isEdit reports whether a replay changes its messages.
func isEdit(r request) bool {
	var changes map[string]json.RawMessage
	_ = json.Unmarshal(r.Body["changes"], &changes) // it was written just now
	delete(changes, "keep_reply_to")
	return len(changes) > 0 || len(r.Body["transform"]) > 0
}

// Ask returns nil if a caller may do an operation now. If a rule wants a second person, it keeps the
// request, and its error has the id of the approval that it waits for.
func (s Service) Ask(ctx context.Context, op *operation.Operation, in any) error {
	rules, action := s.System.Settings().Approvals, actionOf(op)
	if action == "" || len(rules.Rules) == 0 || ctx.Value(approvedKey{}) != nil {
		return nil
	}
	input, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("writing the input of %s: %w", op.ID, err)
	}
	var asked request
	if err := json.Unmarshal(input, &asked); err != nil {
		return fmt.Errorf("reading the input of %s: %w", op.ID, err)
	}
	if string(asked.Body["dry_run"]) == "true" {
		return nil
	}
	if action == Replay && isEdit(asked) {
		action = Edit
	}
	caller := access.FromContext(ctx)
	concerned := slices.DeleteFunc(slices.Clone(rules.Rules), func(r config.ApprovalRule) bool { return !concerns(r, action, caller) })
	if len(concerned) == 0 {
		return nil
	}
	if asked, err = s.withoutSubject(action, asked); err != nil {
		return err
	}
	digest, err := digestOf(op, asked, caller)
	if err != nil {
		return err
	}
	asked = s.absolute(asked)
	found, err := s.plan(ctx, op, asked)
	if err != nil {
		return err
	}
	concerned = slices.DeleteFunc(concerned, func(r config.ApprovalRule) bool {
		return found.Matched <= r.Above || !found.matches(r.Targets, asked)
	})
	if len(concerned) == 0 || found.Matched == 0 || found.Expect != found.Matched {
		return found.bind(in) // the operation itself says that nothing matches, or another number
	}
	if err := mayWait(asked, found); err != nil {
		return err
	}
	kept := record{Operation: op.ID, Asker: caller, Digest: digest}
	kept.ID, kept.State, kept.Action, kept.By, kept.Client = rand.Text()[:12], Waiting, action, caller.Name, caller.Client
	kept.Matched, kept.Targets, kept.Created = found.Matched, found.targets(asked), time.Now().UTC()
	kept.Expires, kept.Needs = kept.Created.Add(rules.Expire), op.Role
	_ = json.Unmarshal(asked.Body["reason"], &kept.Reason) // it is a text, or missing
	for _, r := range concerned {
		role, _ := access.ParseRole(r.Approver) // the configuration was checked
		kept.Needs = max(kept.Needs, role)
	}
	if kept.Input, kept.Request, err = guarded(asked, found, "approval "+kept.ID); err != nil {
		return err
	}
	return s.wait(ctx, kept)
}

// withoutSubject returns a request with the hashes of the subject that it names, since the record of an approval must not
// name a person.
func (s Service) withoutSubject(action Action, r request) (request, error) {
	if action != Erase {
		return r, nil
	}
	var named subjects.Subject
	text, err := json.Marshal(r.Body)
	if err == nil {
		err = json.Unmarshal(text, &named)
	}
	if err == nil {
		named, err = subjects.Hashed(s.System.Redactor(), named)
	}
	if err != nil {
		return r, err
	}
	r.Body = maps.Clone(r.Body)
	delete(r.Body, "subject")
	r.Body["hashes"], err = json.Marshal(named.Hashes)
	return r, err
}

// digestOf returns a digest of a request by its caller. A repeated request may have another key.
func digestOf(op *operation.Operation, asked request, caller access.Identity) (string, error) {
	asked.Key = ""
	text, err := json.Marshal(asked)
	if err != nil {
		return "", fmt.Errorf("writing the input of %s: %w", op.ID, err)
	}
	return idempotency.Digest(op.ID, string(text), string(caller.Method), caller.Name), nil
}

// concerns reports whether a rule is about the actions of a caller.
func concerns(r config.ApprovalRule, action Action, caller access.Identity) bool {
	return (len(r.Actions) == 0 || slices.Contains(r.Actions, string(action))) && (len(r.Roles) == 0 || slices.Contains(r.Roles, caller.Role.String()))
}

// matches reports whether a pattern matches a name, or there is no pattern.
func matches(patterns, names []string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool {
		return slices.ContainsFunc(names, kql.Pattern(strings.Split(p, "*")).Match)
	})
}

// plan finds the items that a request would change.
func (s Service) plan(ctx context.Context, op *operation.Operation, r request) (plan, error) {
	id, tried := replays.PlanReplay.ID, r
	tried.Body = maps.Clone(r.Body)
	if op.ID != replays.StartReplay.ID {
		id = op.ID
		tried.Body["dry_run"] = json.RawMessage("true")
	}
	delete(tried.Body, "expect") // compared below
	input, err := json.Marshal(tried)
	if err != nil {
		return plan{}, fmt.Errorf("writing the input of %s: %w", id, err)
	}
	output, err := s.Set.Repeat(ctx, id, input)
	if err != nil {
		return plan{}, err
	}
	var found struct{ Body plan }
	if err := json.Unmarshal(output, &found); err != nil {
		return plan{}, fmt.Errorf("reading the plan of %s: %w", id, err)
	}
	p := found.Body
	p.Expect = p.Matched
	_ = json.Unmarshal(r.Body["expect"], &p.Expect) // it is a number, null or missing
	if op.ID == waiting.DecideWaiting.ID {          // which means at most
		p.Expect = min(p.Expect, p.Matched)
	}
	return p, nil
}

// wait keeps a request, unless it waits already. Its error names the approval.
func (s Service) wait(ctx context.Context, asked record) error {
	list, err := s.records(ctx)
	if err != nil {
		return err
	}
	waits := slices.DeleteFunc(slices.Clone(list), func(r record) bool { return r.State != Waiting })
	if i := slices.IndexFunc(waits, func(r record) bool { return r.Digest == asked.Digest && r.Matched == asked.Matched }); i >= 0 {
		return waitsFor(ctx, waits[i].Approval)
	}
	mine := slices.DeleteFunc(slices.Clone(waits), func(r record) bool { return !isSame(r.Asker, asked.Asker) })
	if len(waits) >= maxWaiting || len(mine) >= maxWaitingEach {
		return &problem.Problem{
			Code: code.Conflict, Detail: fmt.Sprintf("%d actions wait for an approval already, %d of them of %s", len(waits), len(mine), asked.By),
			Remedy: "Have some of them decided, or withdraw them.",
		}
	}
	store, err := s.System.Store(ctx)
	if err != nil {
		return err
	}
	if _, err := eventstore.SaveRecord(ctx, store, recordKind, asked.ID, "", asked); err != nil {
		return fmt.Errorf("keeping the request for an approval: %w", err)
	}
	if err := s.deleteOld(ctx, list); err != nil {
		s.System.Logger().Warn("old approvals stay in the store", "error", err)
	}
	return waitsFor(ctx, asked.Approval)
}

// waitsFor returns the problem of a request that waits, and describes it for its audit event.
func waitsFor(ctx context.Context, a Approval) error {
	access.Describe(ctx, access.Action{Name: "ask for approval", Object: "approval " + a.ID + ": " + a.summary(), Reason: a.Reason})
	return &problem.Problem{
		Code: code.NeedsApproval,
		Detail: fmt.Sprintf("%s needs the approval of a second person, and waits for it until %s: approval %s. Nothing was changed",
			a.summary(), a.Expires.Format(time.RFC3339), a.ID),
		Remedy: fmt.Sprintf("Ask somebody with the role %s to approve it: it is done then.", a.Needs),
	}
}

func (a Approval) summary() string {
	unit := "message"
	switch a.Action {
	case Policy:
		unit = "queue"
	case Erase:
		unit = "key"
	}
	return fmt.Sprintf("%s of %s", a.Action, wording.Plural(a.Matched, unit))
}
