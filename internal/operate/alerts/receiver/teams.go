package receiver

import (
	"encoding/json"
	"strings"

	"github.com/watershipmq/watership/internal/operate/alerts/notice"
	"github.com/watershipmq/watership/internal/render/wording"
)

// teamsMessage is the form that the workflow "When a Teams webhook request is received" takes, with one
// Adaptive Card (https://adaptivecards.io/explorer).
type teamsMessage struct {
	Type        string            `json:"type"`
	Attachments []teamsAttachment `json:"attachments"`
}

type teamsAttachment struct {
	ContentType string    `json:"contentType"`
	ContentURL  *string   `json:"contentUrl"` // null
	Content     teamsCard `json:"content"`
}

type teamsCard struct {
	Schema  string            `json:"$schema"`
	Type    string            `json:"type"`
	Version string            `json:"version"`
	Body    []teamsText       `json:"body"`
	Actions []teamsLink       `json:"actions,omitempty"`
	Teams   map[string]string `json:"msteams"`
}

// teamsText is a block of text without markup, so that no text of a message makes a link.
type teamsText struct {
	Type      string     `json:"type"`
	Separator bool       `json:"separator,omitempty"`
	Runs      []teamsRun `json:"inlines"`
}

type teamsRun struct {
	Type   string     `json:"type"`
	Text   string     `json:"text"`
	Weight string     `json:"weight,omitempty"`
	Color  string     `json:"color,omitempty"`
	Subtle bool       `json:"isSubtle,omitempty"`
	Select *teamsLink `json:"selectAction,omitempty"`
}

type teamsLink struct {
	Type  string `json:"type"`
	Title string `json:"title,omitempty"`
	URL   string `json:"url"`
}

const (
	teamsAlerts      = 20
	longestTeams     = 27 << 10 // bytes of a message; Teams takes 28 KB
	longestTeamsText = 500
)

// teamsBody returns the body of a notice, with as many alerts as fit.
func teamsBody(n notice.Notice) ([]byte, error) {
	for listed := min(len(n.Alerts), teamsAlerts); ; listed-- {
		body, err := json.Marshal(teamsOf(n, listed))
		if err != nil || len(body) <= longestTeams || listed == 0 {
			return body, err
		}
	}
}

func teamsOf(n notice.Notice, listed int) teamsMessage {
	card := teamsCard{
		Schema: "http://adaptivecards.io/schemas/adaptive-card.json", Type: "AdaptiveCard", Version: "1.4", Teams: map[string]string{"width": "Full"},
		Body: []teamsText{newTeamsText(teamsRun{Text: firstRunes(subject(n), longestTeamsText), Weight: "Bolder"})},
	}
	for _, item := range n.Alerts[:listed] {
		head := teamsRun{Text: strings.ToUpper(statusOf(item)) + ": " + firstRunes(item.Summary, longestTeamsText), Weight: "Bolder", Color: teamsColour(item)}
		if item.Link != "" {
			head.Select = &teamsLink{Type: "Action.OpenUrl", URL: item.Link}
		}
		text := newTeamsText(head)
		text.Separator = true
		card.Body = append(card.Body, text)
		if detail := detailOf(item); detail != "" {
			card.Body = append(card.Body, newTeamsText(teamsRun{Text: firstRunes(detail, longestTeamsText)}))
		}
		card.Body = append(card.Body, newTeamsText(teamsRun{Text: item.Rule + ", " + item.Severity + ", since " + formatTime(item.Since), Subtle: true}))
	}
	if more := len(n.Alerts) - listed + n.Omitted; more > 0 {
		card.Body = append(card.Body, newTeamsText(teamsRun{Text: wording.Plural(more, "more alert")}))
	}
	if n.Link != "" {
		card.Actions = []teamsLink{{Type: "Action.OpenUrl", Title: "Open Watership", URL: n.Link}}
	}
	return teamsMessage{Type: "message", Attachments: []teamsAttachment{{ContentType: "application/vnd.microsoft.card.adaptive", Content: card}}}
}

func newTeamsText(run teamsRun) teamsText {
	run.Type = "TextRun"
	return teamsText{Type: "RichTextBlock", Runs: []teamsRun{run}}
}

func teamsColour(item notice.Item) string {
	switch {
	case item.Status == notice.Resolved && item.Muted != "":
		return "Default"
	case item.Status == notice.Resolved:
		return "Good"
	case item.Severity == "critical":
		return "Attention"
	}
	return "Warning"
}
