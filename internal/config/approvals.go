package config

import (
	"slices"
	"time"
)

// Approvals are the actions at the HTTP server that wait for a second person. Without rules there
// are none.
type Approvals struct {
	Expire time.Duration // until when an action can be approved; default: 4h
	Rules  []ApprovalRule
}

// ApprovalRule says which actions wait. All its conditions must hold, and one rule is enough.
type ApprovalRule struct {
	Actions  []string // replay, edit, discard, waiting, policy or erase; default: all
	Above    int      // more messages than this; default: 0
	Roles    []string // of who asks: operator or admin; default: all
	Targets  []string // patterns of queues, or of exchanges to which messages are sent; default: all
	Approver string   // role of who approves; default: operator
}

// ApprovalActions lists the actions that can wait.
func ApprovalActions() []string {
	return []string{"replay", "edit", "discard", "waiting", "policy", "erase"}
}

func approvalKeys(c *Approvals) []Key {
	return []Key{
		{Name: "approvals.expire", Default: "4h", Help: "time within which a second person can approve an action", read: scalar(duration(time.Minute, 30*day), &c.Expire)},
		{Name: "approvals.rules", Form: Structure, Help: "actions that wait for a second person", read: structures(readApprovalRule, &c.Rules)},
	}
}

func readApprovalRule(l *loader, path string, n node) ApprovalRule {
	var r ApprovalRule
	l.readFields(path, n,
		structureField{name: "actions", read: scalars(oneOf(ApprovalActions()...), &r.Actions)},
		structureField{name: "above", read: scalar(wholeNumber(0, 1_000_000_000), &r.Above)},
		structureField{name: "roles", read: scalars(oneOf("operator", "admin"), &r.Roles)},
		structureField{name: "targets", read: scalars(boundedText(1, 255), &r.Targets)},
		structureField{name: "approver", fallback: "operator", read: scalar(oneOf("operator", "admin"), &r.Approver)},
	)
	return r
}

func (r ApprovalRule) clone() ApprovalRule {
	r.Actions, r.Roles, r.Targets = slices.Clone(r.Actions), slices.Clone(r.Roles), slices.Clone(r.Targets)
	return r
}

// checkApprovals refuses rules where everybody is the same identity.
func (k checker) checkApprovals(c *Config) {
	isOpen := c.HTTP.Auth.TokensFile == "" && c.HTTP.Auth.OIDC.Issuer.IsZero()
	k.rejectIf("approvals.rules", len(c.Approvals.Rules) > 0 && isOpen, "http.auth beside it, since a second person needs another login")
}
