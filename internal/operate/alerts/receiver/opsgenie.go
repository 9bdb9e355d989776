package receiver

import (
	"context"
	"strings"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/operate/alerts/notice"
	"github.com/watershipmq/watership/internal/system/secret"
)

// opsgenieAlert is a new alert of the Alert API (https://docs.opsgenie.com/docs/alert-api).
type opsgenieAlert struct {
	Message     string            `json:"message"`
	Alias       string            `json:"alias"`
	Description string            `json:"description,omitempty"`
	Details     map[string]string `json:"details"`
	Entity      string            `json:"entity,omitempty"`
	Source      string            `json:"source"`
	Tags        []string          `json:"tags"`
	Priority    string            `json:"priority"`
}

// opsgenieClose closes an alert.
type opsgenieClose struct {
	Source string `json:"source"`
	Note   string `json:"note,omitempty"`
}

const (
	longestOpsgenieMessage     = 130
	longestOpsgenieDescription = 15_000
	longestOpsgenieName        = 100 // of source and entity, which is what both take
	longestOpsgenieDetail      = 500 // all details have at most 8,000 characters
	longestOpsgenieTag         = 50
)

func newOpsgenie(key string, cfg config.IncidentService) (Receiver, error) {
	p, err := newIncidentService(key, cfg)
	if err != nil {
		return Receiver{}, err
	}
	apiKey, err := secret.Text(key+".key_file", cfg.KeyFile)
	if err != nil {
		return Receiver{}, err
	}
	p.set = map[string]string{"Authorization": "GenieKey " + apiKey}
	p.url += "/v2/alerts"
	s := &incidents{
		open: func(ctx context.Context, key string, n notice.Notice, item notice.Item) (string, error) {
			return p.postJSON(ctx, n.ID, opsgenieOf(key, n, item))
		},
		resolve: func(ctx context.Context, key string, n notice.Notice, item notice.Item) (string, error) {
			one, note := p, "resolved"
			if item.Muted != "" {
				note = "muted " + item.Muted
			}
			one.url += "/" + key + "/close?identifierType=alias"
			return one.postJSON(ctx, n.ID, opsgenieClose{sourceOf(n), firstRunes(note, longestOpsgenieDescription)})
		},
	}
	return Receiver{Kind: "opsgenie", To: hostOf(p.url), Send: s.send}, nil
}

func opsgenieOf(key string, n notice.Notice, item notice.Item) opsgenieAlert {
	var text []string
	for _, part := range []string{item.Summary, item.Detail, item.Link} {
		if part != "" {
			text = append(text, part)
		}
	}
	details := labelsOf(item)
	for name, value := range details {
		details[name] = firstRunes(value, longestOpsgenieDetail)
	}
	if item.Link != "" {
		details["link"] = item.Link
	}
	return opsgenieAlert{
		Message: firstRunes(summaryOf(n, item), longestOpsgenieMessage), Alias: key, Description: firstRunes(strings.Join(text, "\n\n"), longestOpsgenieDescription),
		Details: details, Entity: firstRunes(item.Labels["queue"], longestOpsgenieName), Source: sourceOf(n), Tags: []string{"watership", firstRunes(item.Rule, longestOpsgenieTag)},
		Priority: opsgeniePriority(item.Severity),
	}
}

func sourceOf(n notice.Notice) string { return firstRunes("Watership "+n.Source, longestOpsgenieName) }

// opsgeniePriority returns the priority of a severity: P1 to P5 themselves are severities, too.
func opsgeniePriority(severity string) string {
	switch s := strings.ToLower(severity); s {
	case "p1", "p2", "p3", "p4", "p5":
		return strings.ToUpper(s)
	case "critical":
		return "P1"
	case "error":
		return "P2"
	case "info":
		return "P5"
	}
	return "P3"
}
