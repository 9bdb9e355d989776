package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/operate/alerts/notice"
	"github.com/watershipmq/watership/internal/operate/doctor/commandline"
	"github.com/watershipmq/watership/internal/render/wording"
)

const (
	maxAlertsAge       = time.Minute // of the state that the process which sends alerts saves every few seconds
	maxNoticeFailures  = 3           // in a row
	alertsNotEvaluated = "run watership serve with the role alerts; if it runs, see in its log why it does not"
)

// checkAlerts reports rules of alerts that no process evaluates, and receivers that take nothing.
func (r recordChecks) checkAlerts(ctx context.Context) {
	if r.store == nil || r.conn == nil || len(r.Settings.Alerts.Rules) == 0 {
		return
	}
	ctx, cancel := r.bounded(ctx)
	defer cancel()
	source, err := r.source(ctx)
	var state *notice.State
	if err == nil {
		state, err = notice.Read(ctx, r.store, source)
	}
	if err != nil {
		r.report(AlertsUnknown, Warning, err.Error(), "")
		return
	}
	r.judgeAlerts(state, time.Now())
}

// judgeAlerts reports problems of the alerts in a state.
func (r recordChecks) judgeAlerts(state *notice.State, now time.Time) {
	problems := len(r.findings)
	switch age := now.Sub(state.Saved); {
	case state.Holder == "" || age > maxAlertsAge:
		r.report(AlertsNotEvaluated, Warning, "no process evaluates the rules of alerts", alertsNotEvaluated)
	case age < -maxAlertsAge:
		r.report(AlertsClockAhead, Warning, fmt.Sprintf("the state of the alerts is of a time in %s", wording.Duration(-age)), "set the clocks of this machine and of "+state.Holder+" right")
	}
	for _, name := range slices.Sorted(maps.Keys(state.Rules)) {
		if rule := state.Rules[name]; rule.Error != "" {
			r.report(AlertRuleFailed, Warning, fmt.Sprintf("rule %s cannot be evaluated: %s", name, rule.Error), "")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(state.Receivers)) {
		r.judgeReceiver(state, name, now)
	}
	if len(r.findings) == problems {
		r.reportOK(AlertsCheck, "%s evaluates %s", state.Holder, wording.Plural(len(r.Settings.Alerts.Rules), "rule"))
	}
}

// judgeReceiver reports a receiver that was not told of alerts for longer than its notices wait.
func (r recordChecks) judgeReceiver(state *notice.State, name string, now time.Time) {
	to := state.Receivers[name]
	untold, since := state.Untold(name)
	waits := now.Sub(since)
	isLate := untold > 0 && waits > r.Settings.Alerts.GroupWait+r.Settings.Alerts.GroupInterval+maxAlertsAge
	var problems []string
	if isLate {
		problems = append(problems, fmt.Sprintf("was not told of %s for %s", wording.Plural(untold, "alert"), wording.Duration(waits.Truncate(time.Second))))
	}
	if to.Failures > 0 && (isLate || to.Failures >= maxNoticeFailures) {
		problems = append(problems, fmt.Sprintf("did not take %s: %s", wording.Plural(to.Failures, "notice"), to.Error))
	}
	if len(problems) > 0 {
		r.reportWith(commandline.New("alerts test", name), AlertReceiverFailed, Warning, "receiver "+name+" "+strings.Join(problems, "; it "), "mend it, and try")
	}
}

// source returns the name of the RabbitMQ system.
func (b *broker) source(ctx context.Context) (string, error) {
	if b.Settings.Source != "" {
		return b.Settings.Source, nil
	}
	return b.conn.Source(ctx)
}
