package receiver

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/watershipmq/watership/internal/operate/alerts/notice"
)

// slackMessage is the form of an incoming webhook of Slack
// (https://api.slack.com/messaging/webhooks). Others, such as Mattermost, take attachments
// and no blocks.
type slackMessage struct {
	Text        string            `json:"text"`
	Attachments []slackAttachment `json:"attachments"`
}

type slackAttachment struct {
	Color    string   `json:"color"`
	Fallback string   `json:"fallback"`
	Title    string   `json:"title"`
	Link     string   `json:"title_link,omitempty"`
	Text     string   `json:"text,omitempty"`
	Footer   string   `json:"footer,omitempty"`
	Time     int64    `json:"ts"`
	Markdown []string `json:"mrkdwn_in"`
}

const slackAttachments = 20 // Slack shows no more

func slackBody(n notice.Notice) ([]byte, error) { return json.Marshal(slackOf(n)) }

func slackOf(n notice.Notice) slackMessage {
	m := slackMessage{Text: "*" + escapeSlack(subject(n)) + "*"}
	if n.Link != "" {
		m.Text += " <" + n.Link + "|open>"
	}
	for i, item := range n.Alerts {
		if i == slackAttachments-1 && len(n.Alerts) > slackAttachments {
			m.Attachments = append(m.Attachments, slackAttachment{Color: "#888888", Fallback: "more", Title: fmt.Sprintf("%d more", len(n.Alerts)-i), Time: n.Time.Unix()})
			break
		}
		m.Attachments = append(m.Attachments, slackAttachment{
			Color: slackColour(item), Fallback: escapeSlack(item.Summary), Title: escapeSlack(statusOf(item) + ": " + item.Summary), Link: item.Link,
			Text: escapeSlack(detailOf(item)), Footer: escapeSlack(item.Rule + ", " + item.Severity), Time: item.Since.Unix(),
		})
	}
	if n.Omitted > 0 {
		m.Text += fmt.Sprintf(" (%d more are not listed)", n.Omitted)
	}
	return m
}

// detailOf returns the detail of an alert; of a muted one, who muted it.
func detailOf(item notice.Item) string {
	if item.Muted != "" {
		return "muted " + item.Muted
	}
	return item.Detail
}

func slackColour(item notice.Item) string {
	switch {
	case item.Status == notice.Resolved && item.Muted != "":
		return "#888888"
	case item.Status == notice.Resolved:
		return "good"
	case item.Severity == "critical":
		return "danger"
	}
	return "warning"
}

// escapeSlack escapes the characters of Slack's markup, so that no text of a message makes
// a link or mentions a channel.
func escapeSlack(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
}
