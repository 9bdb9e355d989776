package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
)

// idleAfter is the time without a message after which a rule of retention is probably misspelt.
const idleAfter = 24 * time.Hour

// checkRetentionRules reports rules that match no message of the last day, on which others were
// recorded.
func (r recordChecks) checkRetentionRules(ctx context.Context) {
	rules := r.Settings.Store.Retention.Rules
	if r.store == nil || len(rules) == 0 {
		return
	}
	ctx, cancel := r.bounded(ctx)
	defer cancel()
	published := kql.And{
		kql.FieldIs("event.action", "published"),
		kql.Range{Field: kql.Pattern{"@timestamp"}, Op: kql.GreaterOrEqual, Value: kql.Value{Pattern: kql.Pattern{time.Now().Add(-idleAfter).UTC().Format(time.RFC3339)}, Quoted: true}},
	}
	if found, err := r.isAny(ctx, published); err != nil || !found {
		return // other checks report the error
	}
	for i, rule := range rules {
		if found, err := r.isAny(ctx, append(published[:len(published):len(published)], likeRule(rule)...)); err != nil || found {
			continue
		}
		r.report(RetentionRuleIdle, Warning, fmt.Sprintf("rule %d of store.retention.rules matches no message of the last day", i+1),
			"correct its exchange, key, stream or label, unless such messages are rare")
	}
}

func (r recordChecks) isAny(ctx context.Context, query kql.Node) (found bool, err error) {
	for _, err := range r.store.Events(ctx, eventstore.Selection{Query: query, Order: eventstore.NewestFirst, Limit: 1, WithoutBody: true}) {
		return true, err
	}
	return false, nil
}

// likeRule returns nodes that match the messages of a rule, and perhaps more: a word of a routing key
// is any text.
func likeRule(rule eventstore.KeepRule) (nodes kql.And) {
	like := func(field, pattern string) {
		nodes = append(nodes, kql.Is{Field: kql.Pattern{field}, Value: kql.Value{Pattern: strings.Split(pattern, "*")}})
	}
	if rule.Exchange != "" {
		nodes = append(nodes, kql.FieldIs("messaging.destination.name", rule.Exchange))
	}
	if rule.Key != "" {
		key := rule.Key
		for _, words := range []string{".#.", ".#", "#.", "#"} { // which may be none
			key = strings.ReplaceAll(key, words, "*")
		}
		like("messaging.rabbitmq.destination.routing_key", key)
	}
	if rule.Stream != "" {
		like("watership.stream.id", rule.Stream)
	}
	for name, value := range rule.Labels {
		nodes = append(nodes, kql.FieldIs("headers."+name, value))
	}
	return nodes
}
