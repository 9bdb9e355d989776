package config

import (
	"maps"
	"slices"

	"github.com/watershipmq/watership/retry"
)

// Clone returns a copy that shares no slice and no map with c, so that neither can
// be changed through the other.
func (c Config) Clone() Config {
	c.Roles = slices.Clone(c.Roles)
	c.Tap.Exchanges = cloneEach(c.Tap.Exchanges, TapExchange.clone)
	c.Routes = cloneEach(c.Routes, Route.clone)
	c.Retry.Policies = clonePolicies(c.Retry.Policies)
	c.Retry.Rules = cloneEach(c.Retry.Rules, cloneRule)
	c.Retry.Deaths = slices.Clone(c.Retry.Deaths)
	c.Index.Labels = slices.Clone(c.Index.Labels)
	c.Index.NumericLabels = slices.Clone(c.Index.NumericLabels)
	c.Fingerprint.IgnoreHeaders = slices.Clone(c.Fingerprint.IgnoreHeaders)
	c.Store.Retention.Rules = cloneEach(c.Store.Retention.Rules, cloneKeepRule)
	c.Redact.Rules = slices.Clone(c.Redact.Rules)
	c.Streams = slices.Clone(c.Streams)
	c.Index.TimeHeaders = slices.Clone(c.Index.TimeHeaders)
	c.Alerts = c.Alerts.clone()
	c.Approvals.Rules = cloneEach(c.Approvals.Rules, ApprovalRule.clone)
	c.HTTP.TrustedProxies = slices.Clone(c.HTTP.TrustedProxies)
	c.HTTP.Auth.OIDC.Scopes = slices.Clone(c.HTTP.Auth.OIDC.Scopes)
	c.HTTP.Auth.OIDC.Roles = cloneEach(c.HTTP.Auth.OIDC.Roles, RoleGrant.clone)
	return c
}

func (g RoleGrant) clone() RoleGrant {
	g.Queues, g.Exchanges = slices.Clone(g.Queues), slices.Clone(g.Exchanges)
	return g
}

func (t TapExchange) clone() TapExchange {
	t.Keys = slices.Clone(t.Keys)
	return t
}

func (r Route) clone() Route {
	r.Bind = slices.Clone(r.Bind)
	r.Rules = cloneEach(r.Rules, cloneRule)
	r.Arguments = maps.Clone(r.Arguments)
	r.Handler.HTTP.Answers = slices.Clone(r.Handler.HTTP.Answers)
	r.Handler.HTTP.Statuses = maps.Clone(r.Handler.HTTP.Statuses)
	r.Handler.HTTP.Headers = slices.Clone(r.Handler.HTTP.Headers)
	r.Handler.HTTP.SetHeaders = maps.Clone(r.Handler.HTTP.SetHeaders)
	r.Handler.HTTP.Hosts = slices.Clone(r.Handler.HTTP.Hosts)
	r.Handler.HTTP.PrivateNetworks = slices.Clone(r.Handler.HTTP.PrivateNetworks)
	return r
}

func clonePolicies(policies map[string]retry.Policy) map[string]retry.Policy {
	cloned := maps.Clone(policies)
	for name, policy := range cloned {
		policy.Delays = slices.Clone(policy.Delays)
		policy.At = slices.Clone(policy.At)
		policy.NoAttempts = cloneEach(policy.NoAttempts, cloneWindow)
		policy.Classes = clonePolicies(policy.Classes)
		cloned[name] = policy
	}
	return cloned
}

func cloneWindow(w retry.Window) retry.Window {
	w.Days = slices.Clone(w.Days)
	return w
}

func cloneRule(r retry.Rule) retry.Rule {
	r.Headers = maps.Clone(r.Headers)
	return r
}

func cloneEach[T any](items []T, clone func(T) T) []T {
	cloned := slices.Clone(items)
	for i, item := range cloned {
		cloned[i] = clone(item)
	}
	return cloned
}
