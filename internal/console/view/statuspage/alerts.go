package statuspage

import (
	"github.com/watershipmq/watership/internal/operate/alerts/notice"
)

// Alerts are alerts with their numbers by the kind of their rule.
type Alerts struct {
	List            []notice.Item
	Firing, Pending int
	Kinds           []AlertKind // that fire, in the order to read them
}

// AlertKind is a number of alerts of a kind.
type AlertKind struct {
	Name  string // of one of them, such as "new group"
	Count int
}

// NewAlerts counts alerts.
func NewAlerts(list []notice.Item) Alerts {
	a := Alerts{List: list}
	firing := map[string]int{}
	for _, item := range list {
		if item.Status == notice.Pending {
			a.Pending++
			continue
		}
		a.Firing++
		firing[item.On]++
	}
	for _, kind := range []struct{ on, name string }{
		{notice.OnNewGroup, "new group"},
		{notice.OnRegressed, "regressed group"},
		{notice.OnPoisoned, "threshold"},
		{notice.OnPaused, "paused route"},
		{notice.OnSlow, "slow queue"},
		{notice.OnReceiver, "broken receiver"},
		{notice.OnLag, "late index"},
		{notice.OnGap, "gap"},
		{notice.OnDoctor, "finding"},
	} {
		if n := firing[kind.on]; n > 0 {
			a.Kinds = append(a.Kinds, AlertKind{kind.name, n})
		}
	}
	return a
}
