// Package receiver sends notices of alerts to an Alertmanager, to PagerDuty and Opsgenie, to webhooks, to Slack,
// Teams and Discord, and by mail.
package receiver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/operate/alerts/notice"
)

// Receiver is a receiver of the configuration.
type Receiver struct {
	Name string
	Kind string // of the configuration, such as slack
	To   string // where notices go, without secrets

	// Send sends a notice, whose texts it makes safe, and returns the answer of the receiver.
	Send func(ctx context.Context, n notice.Notice) (answer string, err error)
}

// New makes the receivers of a configuration. It reads their files and checks their templates,
// so that a mistake is an error now and not with the first alert. It asks no server.
func New(receivers []config.AlertReceiver) ([]Receiver, error) {
	var list []Receiver
	var mistakes []error
	for i, cfg := range receivers {
		r, err := newReceiver(fmt.Sprintf("alerts.receivers[%d]", i), cfg)
		if err != nil {
			mistakes = append(mistakes, err)
			continue
		}
		r.Name, r.Send = cfg.Name, sendSafely(r.Send)
		list = append(list, r)
	}
	return list, errors.Join(mistakes...)
}

func newReceiver(key string, cfg config.AlertReceiver) (Receiver, error) {
	switch {
	case len(cfg.Alertmanager.URLs) > 0:
		return newAlertmanager(key+".alertmanager", cfg.Alertmanager)
	case !cfg.Webhook.URL.IsZero():
		return newWebhook(key+".webhook", cfg.Webhook)
	case cfg.Slack.URLFile != "":
		return newChat("slack", key, cfg.Slack, "https://hooks.slack.com/services/T0/B0/x", slackBody)
	case cfg.Teams.URLFile != "":
		return newChat("teams", key, cfg.Teams, "https://prod-1.westeurope.logic.azure.com/workflows/x", teamsBody)
	case cfg.Discord.URLFile != "":
		return newChat("discord", key, cfg.Discord, "https://discord.com/api/webhooks/1/x", discordBody)
	case cfg.PagerDuty.KeyFile != "":
		return newPagerduty(key+".pagerduty", cfg.PagerDuty)
	case cfg.Opsgenie.KeyFile != "":
		return newOpsgenie(key+".opsgenie", cfg.Opsgenie)
	case cfg.Mail.Server != "":
		return newMail(key+".mail", cfg.Mail)
	}
	return Receiver{}, fmt.Errorf("%s: expected one of %s", key, strings.Join(config.AlertReceiverKinds(), ", "))
}

// Pace returns the pace of notices to a receiver. An Alertmanager gets every alert at once, and
// again and again, since it groups and ends alerts by itself. PagerDuty and Opsgenie group alerts, too.
func (r Receiver) Pace(settings config.Alerts) notice.Pace {
	switch r.Kind {
	case "alertmanager":
		return notice.Pace{Repeat: alertmanagerRepeat}
	case "pagerduty", "opsgenie":
		return notice.Pace{Repeat: settings.RepeatInterval}
	}
	return notice.Pace{Wait: settings.GroupWait, Interval: settings.GroupInterval, Repeat: settings.RepeatInterval}
}

const requestTimeout = 15 * time.Second
