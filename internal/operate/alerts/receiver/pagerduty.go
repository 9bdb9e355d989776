package receiver

import (
	"context"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/operate/alerts/notice"
	"github.com/watershipmq/watership/internal/system/secret"
)

// pagerdutyEvent is an event of the Events API v2
// (https://developer.pagerduty.com/docs/events-api-v2/trigger-events/).
type pagerdutyEvent struct {
	RoutingKey string            `json:"routing_key"`
	Action     string            `json:"event_action"` // trigger or resolve
	Key        string            `json:"dedup_key"`
	Client     string            `json:"client,omitempty"`
	ClientURL  string            `json:"client_url,omitempty"`
	Links      []pagerdutyLink   `json:"links,omitempty"`
	Payload    *pagerdutyPayload `json:"payload,omitempty"`
}

type pagerdutyLink struct {
	Href string `json:"href"`
	Text string `json:"text"`
}

type pagerdutyPayload struct {
	Summary   string            `json:"summary"`
	Source    string            `json:"source"`
	Severity  string            `json:"severity"`
	Time      time.Time         `json:"timestamp"`
	Component string            `json:"component,omitempty"`
	Class     string            `json:"class"`
	Details   map[string]string `json:"custom_details"`
}

const longestPagerdutySummary = 1024

func newPagerduty(key string, cfg config.IncidentService) (Receiver, error) {
	p, err := newIncidentService(key, cfg)
	if err != nil {
		return Receiver{}, err
	}
	routingKey, err := secret.Text(key+".key_file", cfg.KeyFile)
	if err != nil {
		return Receiver{}, err
	}
	p.url += "/v2/enqueue"
	post := func(action string, payload func(notice.Notice, notice.Item) pagerdutyEvent) func(context.Context, string, notice.Notice, notice.Item) (string, error) {
		return func(ctx context.Context, key string, n notice.Notice, item notice.Item) (string, error) {
			event := payload(n, item)
			event.RoutingKey, event.Action, event.Key = routingKey, action, key
			return p.postJSON(ctx, n.ID, event)
		}
	}
	s := &incidents{open: post("trigger", pagerdutyTrigger), resolve: post("resolve", func(notice.Notice, notice.Item) pagerdutyEvent { return pagerdutyEvent{} })}
	return Receiver{Kind: "pagerduty", To: hostOf(p.url), Send: s.send}, nil
}

func pagerdutyTrigger(n notice.Notice, item notice.Item) pagerdutyEvent {
	details := labelsOf(item)
	if item.Detail != "" {
		details["detail"] = item.Detail
	}
	e := pagerdutyEvent{Client: "Watership " + n.Source, ClientURL: n.Link, Payload: &pagerdutyPayload{
		Summary: firstRunes(summaryOf(n, item), longestPagerdutySummary), Source: n.Source, Severity: pagerdutySeverity(item.Severity), Time: item.Since,
		Component: item.Labels["queue"], Class: item.On, Details: details,
	}}
	if item.Link != "" {
		e.Links = []pagerdutyLink{{item.Link, "Open in Watership"}}
	}
	return e
}

// summaryOf returns the summary of an alert, marked if it is a test.
func summaryOf(n notice.Notice, item notice.Item) string {
	if n.Test {
		return "TEST: " + item.Summary
	}
	return item.Summary
}

// pagerdutySeverity returns the severity of a rule, or warning if PagerDuty does not have it.
func pagerdutySeverity(severity string) string {
	switch s := strings.ToLower(severity); s {
	case "critical", "error", "info":
		return s
	}
	return "warning"
}
