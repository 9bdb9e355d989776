// Package rule evaluates the rules of alerts: from the store, RabbitMQ and doctor.
package rule

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/url"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operate/alerts/notice"
	"github.com/watershipmq/watership/internal/operate/doctor"
	"github.com/watershipmq/watership/internal/operate/routes"
	"github.com/watershipmq/watership/schemas"
)

// Store reads events and watermarks.
type Store interface {
	history.ReportingStore
	TopValues(ctx context.Context, sel eventstore.Selection, field string, n int) (eventstore.Aggregation, error)
	eventstore.WatermarkStore
	Events(ctx context.Context, sel eventstore.Selection) iter.Seq2[schemas.Event, error]
	Count(ctx context.Context, sel eventstore.Selection) (int64, error)
	Percentiles(ctx context.Context, sel eventstore.Selection, by string, n int, fields ...string) (eventstore.PercentilesBy, error)
	FirstTime(ctx context.Context, sel eventstore.Selection) (time.Time, error)
}

// System is what rules ask about. Each function may be called at any time.
type System struct {
	Source   string
	Topology schemas.Topology
	Store    Store

	Failures func(ctx context.Context) (history.Failures, error)
	Routes   func(ctx context.Context) ([]routes.RouteState, error)
	Diagnose func(ctx context.Context) []doctor.Finding

	// Waiting returns the number of messages in each queue of copies and events that are not
	// stored yet.
	Waiting func(ctx context.Context) (map[string]int, error)

	Console *url.URL // nil: alerts have no links
}

// doctorInterval is the least time between two runs of doctor, which asks for much.
const doctorInterval = time.Minute

// New makes the rules of a configuration. queries parses a query in KQL.
func New(settings config.Alerts, system System, queries func(text string) (kql.Node, error)) ([]notice.Rule, error) {
	var all []string
	for _, r := range settings.Receivers {
		all = append(all, r.Name)
	}
	var rules []notice.Rule
	for _, cfg := range settings.Rules {
		query, err := queries(cfg.Query)
		if err != nil {
			return nil, err
		}
		holds := system.evaluate(cfg, query)
		if holds == nil {
			return nil, fmt.Errorf("rule %s: no condition of alerts is named %q", cfg.Name, cfg.On)
		}
		rule := notice.Rule{
			Name: cfg.Name, On: cfg.On, Severity: cfg.Severity, Labels: cfg.Labels, For: cfg.For, Every: settings.Interval,
			Receivers: cfg.Receivers, Evaluate: system.linked(holds),
		}
		if len(rule.Receivers) == 0 {
			rule.Receivers = all
		}
		if cfg.On == notice.OnDoctor {
			rule.Every = max(rule.Every, doctorInterval)
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

type evaluate = func(ctx context.Context, memory json.RawMessage) ([]notice.Alert, json.RawMessage, error)

// evaluate returns the condition of a rule, or nil for a name without a condition.
func (s System) evaluate(cfg config.AlertRule, query kql.Node) evaluate {
	switch cfg.On {
	case notice.OnNewGroup:
		return groupRule{s, query, false}.evaluate
	case notice.OnRegressed:
		return groupRule{s, query, true}.evaluate
	case notice.OnPoisoned:
		return countRule{s, query, cfg}.evaluate
	case notice.OnSlow:
		return slowRule{s, query, cfg}.evaluate
	case notice.OnReceiver:
		return receiverRule{s, query, cfg}.evaluate
	case notice.OnPaused:
		return s.evaluatePaused
	case notice.OnLag:
		return lagRule{s, cfg.Behind}.evaluate
	case notice.OnGap:
		return gapRule{s, cfg.Within}.evaluate
	case notice.OnDoctor:
		return s.evaluateDoctor
	}
	return nil
}

// ofSource limits a query to the events of the source.
func (s System) ofSource(query kql.Node) kql.Node {
	return kql.And{kql.FieldIs("watership.source", s.Source), query}
}

// linked adds to alerts the URLs of their pages, if it is known where browsers find the console.
func (s System) linked(evaluate evaluate) evaluate {
	return func(ctx context.Context, memory json.RawMessage) ([]notice.Alert, json.RawMessage, error) {
		found, next, err := evaluate(ctx, memory)
		for i := range found {
			if page, bad := url.Parse(found[i].Page); bad == nil && s.Console != nil {
				found[i].Link = s.Console.ResolveReference(page).String()
			}
		}
		return found, next, err
	}
}

// failuresPage returns the page of the failures of a query.
func failuresPage(query kql.Node) string {
	return "/failures?" + url.Values{"q": {query.String()}, "since": {"all"}}.Encode()
}
