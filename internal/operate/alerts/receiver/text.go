package receiver

import (
	"fmt"
	"strings"

	"github.com/watershipmq/watership/internal/operate/alerts/notice"
	"github.com/watershipmq/watership/internal/render/wording"
)

// subject returns one line about a notice.
func subject(n notice.Notice) string {
	firing, resolved, muted := len(n.Firing()), 0, 0
	for _, item := range n.Resolved() {
		if statusOf(item) == "muted" {
			muted++
		} else {
			resolved++
		}
	}
	var parts []string
	if firing > 0 {
		parts = append(parts, fmt.Sprintf("%d firing", firing))
	}
	if resolved > 0 {
		parts = append(parts, fmt.Sprintf("%d resolved", resolved))
	}
	if muted > 0 {
		parts = append(parts, fmt.Sprintf("%d muted", muted))
	}
	text := "[Watership " + n.Source + "] "
	if n.Test {
		text += "TEST: "
	}
	if len(n.Alerts) == 1 {
		return text + statusOf(n.Alerts[0]) + ": " + wording.OneLine(n.Alerts[0].Summary)
	}
	return text + strings.Join(parts, ", ") + ": " + wording.OneLine(n.Alerts[0].Summary) + " and others"
}

// statusOf returns the status of an alert in a word for people: one that is muted is not mended.
func statusOf(item notice.Item) string {
	if item.Status == notice.Resolved && item.Muted != "" {
		return "muted"
	}
	return item.Status
}

const maxListed = 100

// plain returns the text of a notice.
func plain(n notice.Notice) string {
	var text strings.Builder
	for i, item := range n.Alerts {
		if i == maxListed {
			fmt.Fprintf(&text, "and %d more\n\n", len(n.Alerts)-i)
			break
		}
		fmt.Fprintf(&text, "%s: %s\n", strings.ToUpper(statusOf(item)), wording.OneLine(item.Summary))
		if item.Muted != "" {
			fmt.Fprintf(&text, "  muted %s\n", wording.OneLine(item.Muted))
		}
		if item.Detail != "" {
			fmt.Fprintf(&text, "  %s\n", wording.OneLine(item.Detail))
		}
		fmt.Fprintf(&text, "  rule %s, severity %s, since %s", item.Rule, item.Severity, formatTime(item.Since))
		if item.Ended != nil {
			fmt.Fprintf(&text, " to %s", formatTime(*item.Ended))
		}
		text.WriteString("\n")
		if item.Link != "" {
			fmt.Fprintf(&text, "  %s\n", item.Link)
		}
		text.WriteString("\n")
	}
	if n.Others > 0 {
		fmt.Fprintf(&text, "%s still firing.\n", wording.Plural(n.Others, "other alert"))
	}
	if n.Omitted > 0 {
		fmt.Fprintf(&text, "%s not listed: a rule has only so many.\n", wording.Plural(n.Omitted, "further alert"))
	}
	if n.Link != "" {
		fmt.Fprintf(&text, "All alerts: %s\n", n.Link)
	}
	return text.String()
}

// firstRunes returns a text of at most n characters, the last of which shows that it goes on.
func firstRunes(text string, n int) string {
	if runes := []rune(text); len(runes) > n {
		return string(runes[:n-1]) + "…"
	}
	return text
}
