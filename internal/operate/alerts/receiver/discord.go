package receiver

import (
	"encoding/json"
	"regexp"

	"github.com/watershipmq/watership/internal/operate/alerts/notice"
	"github.com/watershipmq/watership/internal/render/wording"
)

// discordMessage is the form of a webhook of Discord
// (https://discord.com/developers/docs/resources/webhook#execute-webhook).
type discordMessage struct {
	Content  string          `json:"content"`
	Embeds   []discordEmbed  `json:"embeds"`
	Mentions discordMentions `json:"allowed_mentions"`
}

// discordMentions are the kinds of mentions that notify people. None: no text of a message does.
type discordMentions struct {
	Parse []string `json:"parse"`
}

type discordEmbed struct {
	Title       string        `json:"title"`
	Description string        `json:"description,omitempty"`
	URL         string        `json:"url,omitempty"`
	Color       int           `json:"color"`
	Time        string        `json:"timestamp"`
	Footer      discordFooter `json:"footer"`
}

type discordFooter struct {
	Text string `json:"text"`
}

// All embeds of a message have at most 6,000 characters.
const (
	discordEmbeds             = 10
	longestDiscordContent     = 1900
	longestDiscordTitle       = 200
	longestDiscordDescription = 300
	longestDiscordFooter      = 80
)

func discordBody(n notice.Notice) ([]byte, error) {
	m := discordMessage{Content: "**" + escapeDiscord(subject(n), longestDiscordContent) + "**", Embeds: []discordEmbed{}, Mentions: discordMentions{[]string{}}}
	listed := min(len(n.Alerts), discordEmbeds)
	for _, item := range n.Alerts[:listed] {
		m.Embeds = append(m.Embeds, discordEmbed{
			Title: escapeDiscord(statusOf(item)+": "+item.Summary, longestDiscordTitle), Description: escapeDiscord(detailOf(item), longestDiscordDescription), URL: item.Link,
			Color: discordColour(item), Time: formatTime(item.Since), Footer: discordFooter{firstRunes(item.Rule+", "+item.Severity, longestDiscordFooter)},
		})
	}
	if more := len(n.Alerts) - listed + n.Omitted; more > 0 {
		m.Content += " (" + wording.Plural(more, "more alert") + ")"
	}
	return json.Marshal(m)
}

// escapeDiscord escapes the characters of Discord's markup, so that no text of a message makes a link, and
// cuts the text so that at most longest characters are left with them.
func escapeDiscord(text string, longest int) string {
	for n := longest; ; n -= 10 {
		escaped := regexp.MustCompile("[\\\\*_~`|>\\[\\]()#<:-]").ReplaceAllString(firstRunes(text, n), `\$0`)
		if len([]rune(escaped)) <= longest {
			return escaped
		}
	}
}

func discordColour(item notice.Item) int {
	switch {
	case item.Status == notice.Resolved && item.Muted != "":
		return 0x888888
	case item.Status == notice.Resolved:
		return 0x2e7d32
	case item.Severity == "critical":
		return 0xc62828
	}
	return 0xf9a825
}
