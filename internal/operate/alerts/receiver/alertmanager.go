package receiver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/operate/alerts/notice"
	"github.com/watershipmq/watership/internal/system/secret"
)

// An alert that is not sent again ends by itself after some time, so that one whose sender is
// gone does not fire for ever. It is sent again often enough for a few losses.
const (
	alertmanagerRepeat = time.Minute
	alertmanagerEnd    = 5 * time.Minute
)

// postableAlert is an alert of the API v2 (POST /api/v2/alerts).
type postableAlert struct {
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"`
	GeneratorURL string            `json:"generatorURL,omitempty"`
}

func newAlertmanager(key string, cfg config.Alertmanager) (Receiver, error) {
	client, err := newClient(key+".tls", cfg.TLS)
	if err != nil {
		return Receiver{}, err
	}
	base := poster{client: client, contentType: "application/json", username: cfg.Username}
	if base.password, err = secret.Text(key+".password_file", cfg.PasswordFile); err != nil {
		return Receiver{}, err
	}
	if base.token, err = secret.Text(key+".token_file", cfg.TokenFile); err != nil {
		return Receiver{}, err
	}
	var members []poster
	var to []string
	for _, u := range cfg.URLs {
		one := base
		one.url = strings.TrimSuffix(u.Reveal(), "/") + "/api/v2/alerts"
		members, to = append(members, one), append(to, hostOf(u.Reveal()))
	}
	return Receiver{Kind: "alertmanager", To: strings.Join(to, ", "), Send: func(ctx context.Context, n notice.Notice) (string, error) {
		return postToAll(ctx, members, n)
	}}, nil
}

// membersGrace is the time that the other members of a cluster have to answer once one has taken
// a notice, since the next notice waits for them.
const membersGrace = 2 * time.Second

var errNoAnswer = errors.New("no answer")

// postToAll posts to each member of a cluster at the same time, since members do not share
// alerts. One that takes them is enough: the others get the alerts that still fire with the next
// notice.
func postToAll(ctx context.Context, members []poster, n notice.Notice) (string, error) {
	body, err := json.Marshal(postable(n))
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	type result struct {
		answer string
		err    error
	}
	results := make(chan result, len(members))
	for _, member := range members {
		go func() {
			answer, err := member.post(ctx, n.ID, body)
			if err != nil {
				if errors.Is(context.Cause(ctx), errNoAnswer) {
					err = errNoAnswer
				}
				err = fmt.Errorf("%s: %w", hostOf(member.url), err)
			}
			results <- result{answer, err}
		}()
	}
	var answers []string
	var failed []error
	for range members {
		got := <-results
		if got.err != nil {
			failed = append(failed, got.err)
			continue
		}
		if answers = append(answers, got.answer); len(answers) == 1 {
			timer := time.AfterFunc(membersGrace, func() { cancel(errNoAnswer) })
			defer timer.Stop()
		}
	}
	if len(answers) == 0 {
		return "", errors.Join(failed...)
	}
	for _, err := range failed {
		answers = append(answers, err.Error())
	}
	return strings.Join(answers, "; "), nil
}

func postable(n notice.Notice) []postableAlert {
	list := []postableAlert{}
	for _, item := range n.Alerts {
		p := postableAlert{
			Labels:      map[string]string{"alertname": item.Rule, "on": item.On, "severity": item.Severity, "source": n.Source},
			Annotations: map[string]string{"summary": item.Summary},
			StartsAt:    item.Since, EndsAt: n.Time.Add(alertmanagerEnd), GeneratorURL: item.Link,
		}
		if item.Ended != nil {
			p.EndsAt = *item.Ended
		}
		if p.EndsAt.Before(p.StartsAt) { // Alertmanager refuses such a notice
			p.EndsAt = p.StartsAt
		}
		if item.Muted != "" {
			p.Annotations["muted"] = item.Muted
		}
		if item.Detail != "" {
			p.Annotations["description"] = item.Detail
		}
		maps.Copy(p.Labels, item.Extra)
		maps.Copy(p.Labels, item.Labels)
		maps.DeleteFunc(p.Labels, func(_, value string) bool { return value == "" })
		list = append(list, p)
	}
	return list
}
