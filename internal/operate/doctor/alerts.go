package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/operate/alerts/notice"
	"github.com/watershipmq/watership/internal/render/wording"
)

const (
	maxAlertsAge       = time.Minute // of the state that the process which sends alerts saves every few seconds
	maxNoticeFailures  = 3           // in a row
	alertsNotEvaluated = "run watership serve with the role alerts; if it runs, see in its log why it does not"
)

// checkAlerts reports rules of alerts that no process evaluates, and receivers that take nothing.
func (d *doctor) checkAlerts(ctx context.Context) {
	if d.store == nil || d.conn == nil || len(d.Settings.Alerts.Rules) == 0 {
		return
	}
	ctx, cancel := d.bounded(ctx)
	defer cancel()
	source, err := d.source(ctx)
	var state *notice.State
	if err == nil {
		state, err = notice.Read(ctx, d.store, source)
	}
	if err != nil {
		d.report("alerts", Warning, err.Error(), "")
		return
	}
	d.judgeAlerts(state, time.Now())
}

// judgeAlerts reports problems of the alerts in a state.
func (d *doctor) judgeAlerts(state *notice.State, now time.Time) {
	problems := len(d.findings)
	switch age := now.Sub(state.Saved); {
	case state.Holder == "" || age > maxAlertsAge:
		d.report("alerts", Warning, "no process evaluates the rules of alerts", alertsNotEvaluated)
	case age < -maxAlertsAge:
		d.report("alerts", Warning, fmt.Sprintf("the state of the alerts is of a time in %s", wording.Duration(-age)), "set the clocks of this machine and of "+state.Holder+" right")
	}
	for _, name := range slices.Sorted(maps.Keys(state.Rules)) {
		if rule := state.Rules[name]; rule.Error != "" {
			d.report("alerts", Warning, fmt.Sprintf("rule %s cannot be evaluated: %s", name, rule.Error), "")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(state.Receivers)) {
		d.judgeReceiver(state, name, now)
	}
	if len(d.findings) == problems {
		d.reportOK("alerts", "%s evaluates %s", state.Holder, wording.Plural(len(d.Settings.Alerts.Rules), "rule"))
	}
}

// judgeReceiver reports a receiver that was not told of alerts for longer than its notices wait.
func (d *doctor) judgeReceiver(state *notice.State, name string, now time.Time) {
	to := state.Receivers[name]
	untold, since := state.Untold(name)
	waits := now.Sub(since)
	isLate := untold > 0 && waits > d.Settings.Alerts.GroupWait+d.Settings.Alerts.GroupInterval+maxAlertsAge
	var problems []string
	if isLate {
		problems = append(problems, fmt.Sprintf("was not told of %s for %s", wording.Plural(untold, "alert"), wording.Duration(waits.Truncate(time.Second))))
	}
	if to.Failures > 0 && (isLate || to.Failures >= maxNoticeFailures) {
		problems = append(problems, fmt.Sprintf("did not take %s: %s", wording.Plural(to.Failures, "notice"), to.Error))
	}
	if len(problems) > 0 {
		d.report("alerts", Warning, "receiver "+name+" "+strings.Join(problems, "; it "), "mend it, and try watership alerts test "+wording.Quoted(name))
	}
}

// source returns the name of the RabbitMQ system.
func (d *doctor) source(ctx context.Context) (string, error) {
	if d.Settings.Source != "" {
		return d.Settings.Source, nil
	}
	return d.conn.Source(ctx)
}
