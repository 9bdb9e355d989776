package pipeline

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/watershipmq/watership/internal/topology/role"
	"github.com/watershipmq/watership/retry"
)

// Role is a part of Watership that one process or several run for all queues.
type Role string

// Roles. `watership serve` has them all by default, and indexes as well.
const (
	RoleRetry  = Role(role.Retry)  // retries the dead letters of consumers in any language, and acts on their reports
	RoleDue    = Role(role.Due)    // returns messages that have waited to their queues
	RolePoison = Role(role.Poison) // records the messages that are given up, and parks them
)

func allRoles() []Role { return []Role{RoleRetry, RoleDue, RolePoison} }

// has reads only fields that Reload does not replace: it is called while that runs.
func (c *Config) has(r Role) bool { return c.Standalone || slices.Contains(c.Roles, r) }

func (c Config) validateRoles() error {
	for _, r := range c.Roles {
		if !slices.Contains(allRoles(), r) {
			return fmt.Errorf("role %q: expected any of %v", r, allRoles())
		}
	}
	return nil
}

// consumer describes this process as a consumer for a role.
func (c Config) consumer(r role.Role) role.Consumer { return role.NewConsumer(r, c.policies(r)) }

// policies returns a digest of the settings by which a role decides about the messages of
// other processes.
func (c Config) policies(r role.Role) string {
	type queuePolicy struct {
		Queue   string
		Policy  *retry.Policy
		Rules   []retry.Rule
		Headers retry.Headers
		Park    bool
		Breaker *retry.Breaker // bounds the waits
		Check   string         `json:",omitempty"` // digest
	}
	var settings any
	switch Role(r) {
	case RoleRetry:
		queues := []queuePolicy{{Policy: c.Default, Rules: c.Rules, Breaker: &c.Breaker}}
		for _, route := range c.Routes {
			queues = append(queues, queuePolicy{route.Queue, route.Policy, route.Rules, route.Headers, route.Park, route.Breaker, route.CheckDigest})
		}
		slices.SortFunc(queues, func(a, b queuePolicy) int { return strings.Compare(a.Queue, b.Queue) })
		settings = []any{queues, slices.Sorted(slices.Values(c.RetriedDeaths)), c.Fingerprints}
	case RoleDue:
		settings = []any{c.ReturnGrace, c.ReturnPause, c.Fingerprints}
	default:
		return ""
	}
	text, err := json.Marshal(settings)
	if err != nil {
		return "" // a policy that is no number has been refused
	}
	digest := sha256.Sum256(text)
	return hex.EncodeToString(digest[:6])
}
