package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/watershipmq/watership/internal/alert"
	"github.com/watershipmq/watership/internal/wording"
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
	var state *alert.State
	if err == nil {
		state, err = alert.Read(ctx, d.store, source)
	}
	if err != nil {
		d.report("alerts", Warning, err.Error(), "")
		return
	}
	problems := len(d.findings)
	if state.Holder == "" || time.Since(state.Saved) > maxAlertsAge {
		d.report("alerts", Warning, "no process evaluates the rules of alerts", alertsNotEvaluated)
	}
	for _, name := range slices.Sorted(maps.Keys(state.Rules)) {
		if rule := state.Rules[name]; rule.Error != "" {
			d.report("alerts", Warning, fmt.Sprintf("rule %s cannot be evaluated: %s", name, rule.Error), "")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(state.Receivers)) {
		if to := state.Receivers[name]; to.Failures >= maxNoticeFailures {
			d.report("alerts", Warning, fmt.Sprintf("receiver %s did not take %s: %s", name, wording.Plural(to.Failures, "notice"), to.Error), "mend it, and try watership alerts test "+wording.Quoted(name))
		}
	}
	if len(d.findings) == problems {
		d.reportOK("alerts", "%s evaluates %s", state.Holder, wording.Plural(len(d.Settings.Alerts.Rules), "rule"))
	}
}

// source returns the name of the RabbitMQ system.
func (d *doctor) source(ctx context.Context) (string, error) {
	if d.Settings.Source != "" {
		return d.Settings.Source, nil
	}
	return d.conn.Source(ctx)
}
