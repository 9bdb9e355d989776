package rabbit

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

// Policy is a policy: arguments for queues or exchanges whose names match a pattern
// (https://www.rabbitmq.com/docs/parameters#policies).
type Policy struct {
	Name       string           `json:"name"`
	Pattern    string           `json:"pattern"`
	ApplyTo    string           `json:"apply-to"` // queues, quorum_queues, exchanges, all, ...
	Priority   int              `json:"priority"`
	Definition policyDefinition `json:"definition"`
}

// AppliesTo reports whether the policy is for a queue of a type. RabbitMQ applies none of the
// settings of a policy to a queue whose type does not support one of them.
func (p Policy) AppliesTo(queue, kind string) (bool, error) {
	switch p.ApplyTo {
	case "", "all", "queues", kind + "_queues":
	default:
		return false, nil
	}
	for _, key := range unsupported(kind) {
		if _, has := p.Definition[key]; has {
			return false, nil
		}
	}
	return matchPattern(p.Pattern, queue)
}

// unsupported returns the keys of policies that no release of RabbitMQ supports for a type of queues.
// A key that only some releases do not support is left out.
func unsupported(kind string) []string {
	streams := []string{"max-age", "stream-max-segment-size-bytes", "initial-cluster-size"}
	classics := []string{
		"queue-mode", "queue-master-locator", "max-priority",
		"ha-mode", "ha-params", "ha-sync-mode", "ha-promote-on-shutdown", "ha-promote-on-failure",
	}
	switch kind {
	case "classic":
		return append(streams, "delivery-limit", "dead-letter-strategy", "target-group-size")
	case "quorum":
		return append(streams, classics...)
	case "stream":
		return append(classics, "delivery-limit", "dead-letter-strategy", "target-group-size", "dead-letter-exchange", "dead-letter-routing-key",
			"message-ttl", "expires", "overflow", "max-length", "max-in-memory-length", "max-in-memory-bytes")
	}
	return nil
}

// SettingText returns the text of a value of a policy or an argument. The management API's
// numbers are float64, which package fmt writes with an exponent.
func SettingText(value any) string {
	if n, isNumber := value.(float64); isNumber {
		return strconv.FormatFloat(n, 'f', -1, 64)
	}
	return fmt.Sprint(value)
}

// SavePolicy creates a policy, or replaces the one with its name. Queues have it within
// seconds. The login needs the tag policymaker.
func (m *Management) SavePolicy(ctx context.Context, vhost string, p Policy) error {
	body, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return m.send(ctx, http.MethodPut, body, "policies", vhost, p.Name)
}

// DeletePolicy deletes a policy. The login needs the tag policymaker.
func (m *Management) DeletePolicy(ctx context.Context, vhost, name string) error {
	return m.send(ctx, http.MethodDelete, nil, "policies", vhost, name)
}

// Policies lists the policies of a vhost.
func (m *Management) Policies(ctx context.Context, vhost string) ([]Policy, error) {
	return get[[]Policy](ctx, m, "policies", vhost)
}

// OperatorPolicies lists the operator policies of a vhost, which limit queues further.
func (m *Management) OperatorPolicies(ctx context.Context, vhost string) ([]Policy, error) {
	return get[[]Policy](ctx, m, "operator-policies", vhost)
}

// DeadLettering returns, by queue, the number of messages in at-least-once
// dead-lettering that their target queues have not confirmed yet. Queues with none
// are left out.
func (m *Management) DeadLettering(ctx context.Context, vhost string) (map[string]int64, error) {
	queues, err := get[[]struct {
		Name string `json:"name"`
		DLX  int64  `json:"messages_dlx"`
	}](ctx, m, "queues", vhost)
	waiting := map[string]int64{}
	for _, queue := range queues {
		if queue.DLX > 0 {
			waiting[queue.Name] = queue.DLX
		}
	}
	return waiting, err
}

// Permission holds a user's permissions in a vhost: patterns of exchange and queue
// names (https://www.rabbitmq.com/docs/access-control).
type Permission struct {
	User      string `json:"user"`
	Configure string `json:"configure"`
	Write     string `json:"write"`
	Read      string `json:"read"`
}

// Permissions lists the permissions in a vhost. RabbitMQ requires a user with the
// tag administrator.
func (m *Management) Permissions(ctx context.Context, vhost string) ([]Permission, error) {
	return get[[]Permission](ctx, m, "vhosts", vhost, "permissions")
}

// TopicPermission limits the routing keys with which a user may publish to a topic
// exchange (https://www.rabbitmq.com/docs/access-control#topic-authorisation).
type TopicPermission struct {
	User     string `json:"user"`
	Exchange string `json:"exchange"`
	Write    string `json:"write"`
}

// TopicPermissions lists the topic permissions in a vhost. RabbitMQ requires a user
// with the tag administrator.
func (m *Management) TopicPermissions(ctx context.Context, vhost string) ([]TopicPermission, error) {
	return get[[]TopicPermission](ctx, m, "vhosts", vhost, "topic-permissions")
}
