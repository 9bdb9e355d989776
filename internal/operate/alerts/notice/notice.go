// Package notice notifies receivers of conditions that rules find, such as a new group of
// failures. One process of a system does so, which holds a lease in the store. The state of
// each alert and of each receiver is in the same record, saved before and after each notice,
// so that another process continues where one ended.
package notice

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
)

// Alert is a condition that a rule has found.
type Alert struct {
	Rule     string `json:"rule" doc:"Name of the rule"`
	On       string `json:"on" doc:"Condition of the rule: new_group, regressed, poisoned, slow, receiver, paused, lag, gap or doctor"`
	Severity string `json:"severity"`

	// Labels distinguish the alert from others of its rule.
	Labels map[string]string `json:"labels,omitempty" nullable:"false" doc:"Distinguish the alert from others of its rule, such as queue and class"`

	// Extra are the labels of the rule itself.
	Extra map[string]string `json:"rule_labels,omitempty" nullable:"false" doc:"Labels of the rule"`

	Summary string `json:"summary" doc:"One line"`
	Detail  string `json:"detail,omitempty"`
	Page    string `json:"page,omitempty" doc:"Path and query of its page of the console"`
	Link    string `json:"link,omitempty" doc:"URL of its page of the console, if it is known where browsers find that"`

	// Muted says why the alert of a condition ends that is not mended, such as by whom and until when it is muted.
	Muted string `json:"muted,omitempty" doc:"By whom and until when the group of failures is muted, or since when nothing was heard, for which the alert has ended"`
}

// Key identifies an alert among the alerts of all rules.
func (a Alert) Key() string {
	sum := sha256.Sum256([]byte(a.identity()))
	return hex.EncodeToString(sum[:12])
}

func (a Alert) identity() string {
	var text strings.Builder
	text.WriteString(a.Rule)
	for _, name := range slices.Sorted(maps.Keys(a.Labels)) {
		text.WriteString("\n" + name + "=" + a.Labels[name])
	}
	return text.String()
}

// Conditions of rules.
const (
	OnNewGroup  = "new_group"
	OnRegressed = "regressed"
	OnPoisoned  = "poisoned"
	OnSlow      = "slow"
	OnReceiver  = "receiver"
	OnPaused    = "paused"
	OnLag       = "lag"
	OnGap       = "gap"
	OnDoctor    = "doctor"
)

// Status of an alert.
const (
	Pending  = "pending" // until the rule's `for` has passed
	Firing   = "firing"
	Resolved = "resolved"
)

// Item is an alert with its times, as notices and lists have it.
type Item struct {
	Alert
	Status string     `json:"status" enum:"pending,firing,resolved"`
	Since  time.Time  `json:"since" doc:"When it began to fire; of a pending one, when its condition began"`
	Ended  *time.Time `json:"ended,omitempty" doc:"When it was resolved"`
}

// Notice is a message to a receiver about one or more alerts.
type Notice struct {
	ID       string    `json:"id"` // of equal notices, such as a repeated attempt, it is the same
	Source   string    `json:"source"`
	Receiver string    `json:"receiver"`
	Test     bool      `json:"test"`
	Time     time.Time `json:"time"`
	Status   string    `json:"status"`  // Firing if any of the alerts fires, else Resolved
	Alerts   []Item    `json:"alerts"`  // those that fire first
	Others   int       `json:"others"`  // number of other alerts that fire, of which the receiver knows
	Omitted  int       `json:"omitted"` // number of further alerts, beyond the most that a rule has
	Link     string    `json:"link,omitempty"`
}

// Firing returns the alerts that fire.
func (n Notice) Firing() []Item { return n.with(Firing) }

// Resolved returns the alerts that have ended.
func (n Notice) Resolved() []Item { return n.with(Resolved) }

func (n Notice) with(status string) []Item {
	var items []Item
	for _, item := range n.Alerts {
		if item.Status == status {
			items = append(items, item)
		}
	}
	return items
}

// TestNotice returns a notice that is marked as a test.
func TestNotice(source, receiver, by, link string, now time.Time) Notice {
	item := Item{
		Alert: Alert{
			Rule: "test", On: "test", Severity: "info", Labels: map[string]string{"test": "true"}, Link: link,
			Summary: "This is a test of the receiver " + receiver, Detail: "Sent by " + by + ". Nothing is wrong.",
		},
		Status: Firing, Since: now,
	}
	return Notice{
		ID: noticeID(receiver, []entry{{Key: item.Key(), Firing: true, Changed: now}}), Source: source, Receiver: receiver,
		Test: true, Time: now, Status: Firing, Alerts: []Item{item}, Link: link,
	}
}

// LaterError is the error of a receiver that says when it takes the next notice.
type LaterError struct {
	After time.Duration
	Err   error
}

func (e *LaterError) Error() string { return e.Err.Error() }
func (e *LaterError) Unwrap() error { return e.Err }

// noticeID depends on the receiver, the alerts and their changes.
func noticeID(receiver string, entries []entry) string {
	text, _ := json.Marshal(entries) // of texts, numbers and times
	sum := sha256.Sum256(append([]byte(receiver+"\n"), text...))
	return hex.EncodeToString(sum[:16])
}
