// Package receiver sends notices of alerts to an Alertmanager, to webhooks, to Slack and
// by mail.
package receiver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/operate/alerts/notice"
)

// Receiver is a receiver of the configuration.
type Receiver struct {
	Name string
	Kind string // alertmanager, webhook, slack or mail
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
		return newSlack(key+".slack", cfg.Slack)
	case cfg.Mail.Server != "":
		return newMail(key+".mail", cfg.Mail)
	}
	return Receiver{}, errors.New(key + ": expected one of alertmanager, webhook, slack and mail")
}

// Pace returns the pace of notices to a receiver. An Alertmanager gets every alert at once, and
// again and again, since it groups and ends alerts by itself.
func (r Receiver) Pace(settings config.Alerts) notice.Pace {
	if r.Kind == "alertmanager" {
		return notice.Pace{Repeat: alertmanagerRepeat}
	}
	return notice.Pace{Wait: settings.GroupWait, Interval: settings.GroupInterval, Repeat: settings.RepeatInterval}
}

const requestTimeout = 15 * time.Second
