// Package alerts has what serve, commands and the HTTP API do with alerts.
package alerts

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operate/alerts/notice"
	"github.com/watershipmq/watership/internal/operate/alerts/receiver"
	"github.com/watershipmq/watership/internal/operate/alerts/rule"
	"github.com/watershipmq/watership/internal/operate/doctor"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/operate/routes"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/topology/role"
	"github.com/watershipmq/watership/pipeline"
)

// Service does the work for one System.
type Service struct {
	System *system.System

	// Console returns the address at which browsers find the console; nil: it is not known. A nil function:
	// the configuration says.
	Console func() *url.URL
}

// Server is a running server, as the role asks about it.
type Server interface {
	Ready(ctx context.Context) error
	Registerer() prometheus.Registerer
	Handlers() pipeline.Config
	Console() *url.URL
	Diagnose(ctx context.Context) []doctor.Finding
}

// Alerts is the state of the alerts of a source.
type Alerts struct {
	Alerts    []notice.Item `json:"alerts" nullable:"false"`
	Rules     []Rule        `json:"rules" nullable:"false"`
	Receivers []Receiver    `json:"receivers" nullable:"false"`
	Process   string        `json:"process,omitempty" doc:"The process that evaluates the rules and sends notices; none: no process does"`
	Saved     *time.Time    `json:"saved,omitempty" doc:"When it saved this state, which it does at least every few seconds"`
}

// Rule is the state of a rule.
type Rule struct {
	Name      string     `json:"name"`
	Evaluated *time.Time `json:"evaluated,omitempty" doc:"The latest time at which it could be evaluated"`
	Error     string     `json:"error,omitempty" doc:"Why it cannot be evaluated"`
	Omitted   int        `json:"omitted,omitempty" doc:"Alerts beyond the greatest number of a rule"`
}

// Receiver is the state of a receiver.
type Receiver struct {
	Name     string     `json:"name"`
	Sent     *time.Time `json:"sent,omitempty" doc:"When it took its latest notice"`
	Failures int        `json:"failures,omitempty" doc:"Attempts in a row at a notice that it did not take"`
	Error    string     `json:"error,omitempty" doc:"Of the latest of them"`
}

// List returns the alerts that fire or are pending, as the store has them.
func (s Service) List(ctx context.Context) (Alerts, error) {
	v := Alerts{Alerts: []notice.Item{}, Rules: []Rule{}, Receivers: []Receiver{}}
	source, err := s.System.Source(ctx)
	if err != nil {
		return v, err
	}
	store, err := s.System.Store(ctx)
	if err != nil {
		return v, err
	}
	state, err := notice.Read(ctx, store, source)
	if err != nil {
		return v, err
	}
	v.Alerts, v.Process, v.Saved = state.Items(), state.Holder, timeOf(state.Saved)
	for name, r := range state.Rules {
		v.Rules = append(v.Rules, Rule{name, timeOf(r.Evaluated), r.Error, r.Omitted})
	}
	for name, r := range state.Receivers {
		v.Receivers = append(v.Receivers, Receiver{name, timeOf(r.Sent), r.Failures, r.Error})
	}
	slices.SortFunc(v.Rules, func(a, b Rule) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(v.Receivers, func(a, b Receiver) int { return strings.Compare(a.Name, b.Name) })
	return v, nil
}

func timeOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// Answer is the answer of a receiver to a test.
type Answer struct {
	Receiver string `json:"receiver"`
	Kind     string `json:"kind" doc:"Kind of the receiver in the configuration, such as slack"`
	To       string `json:"to" doc:"Where the test was sent"`
	Taken    bool   `json:"taken"`
	Answer   string `json:"answer" doc:"The answer of the receiver, or the error"`
}

// Test sends a notice that is marked as a test to a receiver; to all for "".
func (s Service) Test(ctx context.Context, name, by string) ([]Answer, error) {
	settings := s.System.Settings()
	receivers, err := receiver.New(settings.Alerts.Receivers)
	if err != nil {
		return nil, system.InputError{Err: err}
	}
	var names []string
	for _, r := range receivers {
		names = append(names, r.Name)
	}
	switch {
	case len(names) == 0:
		return nil, system.InputError{Err: errors.New("alerts.receivers has no receiver")}
	case name != "" && !slices.Contains(names, name):
		return nil, system.InputError{Err: fmt.Errorf("there is no receiver %s: expected one of %s", name, strings.Join(names, ", "))}
	}
	source, err := s.System.Source(ctx)
	if err != nil {
		return nil, err
	}
	var answers []Answer
	for _, r := range receivers {
		if name != "" && r.Name != name {
			continue
		}
		answer, err := r.Send(ctx, notice.TestNotice(source, r.Name, by, linkOf(s.console()), time.Now().UTC()))
		if err != nil {
			answer = err.Error()
		}
		answers = append(answers, Answer{r.Name, r.Kind, r.To, err == nil, answer})
	}
	return answers, nil
}

func (s Service) console() *url.URL {
	if s.Console == nil {
		return s.System.Settings().HTTP.Console()
	}
	return s.Console()
}

func linkOf(console *url.URL) string {
	if console == nil {
		return ""
	}
	return console.String() + "/"
}

// Role is the part of serve that evaluates the rules and sends notices.
type Role struct {
	service   Service
	settings  config.Alerts
	receivers []receiver.Receiver

	mu       sync.Mutex // guards the fields below
	notifier *notice.Notifier
	system   rule.System
}

// Role returns the part of serve that has the role alerts; nil if serve does not have it.
// Mistakes in rules and receivers are InputErrors.
func (s Service) Role() (*Role, error) {
	settings := s.System.Settings()
	if !slices.Contains(settings.Roles, role.Alerts) {
		return nil, nil
	}
	r := &Role{service: s}
	return r, r.Reload(settings.Alerts)
}

// Reload replaces the rules and the receivers, also while the role runs. A mistake in them is
// an InputError, and changes nothing.
func (r *Role) Reload(settings config.Alerts) error {
	if err := r.Check(settings); err != nil {
		return err
	}
	receivers, err := receiver.New(settings.Receivers)
	if err != nil {
		return system.InputError{Err: err}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settings, r.receivers = settings, receivers
	return r.apply()
}

// Check returns the InputError that Reload would return, and changes nothing.
func (r *Role) Check(settings config.Alerts) error {
	if _, err := receiver.New(settings.Receivers); err != nil {
		return system.InputError{Err: err}
	}
	for i, rule := range settings.Rules {
		if _, err := r.service.System.ParseQuery(rule.Query); err != nil {
			return system.InputError{Err: fmt.Errorf("alerts.rules[%d].query: %w", i, err)}
		}
	}
	return nil
}

// Run evaluates and sends until ctx ends. Without rules it does nothing.
func (r *Role) Run(ctx context.Context, server Server) error {
	logger, settings := r.service.System.Logger(), r.service.System.Settings().Alerts
	asked, err := r.service.system(ctx, server)
	store, noStore := r.service.System.Store(ctx)
	if ctx.Err() != nil {
		return nil // being stopped is no failure
	}
	if err := errors.Join(err, noStore); err != nil {
		return err
	}
	asked.Diagnose = sinceReady(server.Ready, asked.Diagnose)
	if len(settings.Receivers) > 0 && asked.Console == nil {
		logger.Info("notices of alerts have no links to the console: set http.url, the address at which browsers find it")
	}
	notifier := notice.New(notice.Config{
		Store: store, Source: asked.Source, Process: role.NewConsumer(role.Alerts, "").Process + " " + rand.Text()[:6],
		Link: linkOf(asked.Console), Logger: logger, Registerer: server.Registerer(),
	})
	r.mu.Lock()
	r.notifier, r.system = notifier, asked
	err = r.apply()
	r.mu.Unlock()
	if err == nil {
		notifier.Run(ctx)
	}
	return err
}

// sinceReady leaves out what doctor finds about serve until this process was ready once: while it
// starts, it is not ready, which is no error.
func sinceReady(ready func(context.Context) error, diagnose func(context.Context) []doctor.Finding) func(context.Context) []doctor.Finding {
	var was atomic.Bool
	return func(ctx context.Context) []doctor.Finding {
		if !was.Load() && ready(ctx) == nil {
			was.Store(true)
		}
		if was.Load() {
			return diagnose(ctx)
		}
		return slices.DeleteFunc(diagnose(ctx), func(f doctor.Finding) bool { return f.Check == "serve" })
	}
}

// apply gives the notifier its rules and receivers, once it runs.
func (r *Role) apply() error {
	if r.notifier == nil {
		return nil
	}
	rules, err := rule.New(r.settings, r.system, r.service.System.ParseQuery)
	if err != nil {
		return err
	}
	set := notice.Set{Rules: rules}
	for _, to := range r.receivers {
		send := func(ctx context.Context, n notice.Notice) error {
			_, err := to.Send(ctx, n)
			return err
		}
		set.Receivers = append(set.Receivers, notice.Receiver{Name: to.Name, Pace: to.Pace(r.settings), Send: send})
	}
	r.notifier.Replace(set)
	return nil
}

// system returns the system that the rules ask about.
func (s Service) system(ctx context.Context, server Server) (rule.System, error) {
	source, err := s.System.Source(ctx)
	if err != nil {
		return rule.System{}, err
	}
	store, err := s.System.Store(ctx)
	service := routes.Service{System: s.System, Handlers: server.Handlers}
	return rule.System{
		Source: source, Topology: s.System.Topology(), Store: store, Diagnose: server.Diagnose, Waiting: s.waiting, Console: server.Console(),
		Failures: func(ctx context.Context) (history.Failures, error) { return failures.Unresolved(ctx, s.System) },
		Routes:   func(ctx context.Context) ([]routes.RouteState, error) { return service.States(ctx, false) },
	}, err
}

// waiting returns the numbers of messages that are not stored yet, by queue.
func (s Service) waiting(ctx context.Context) (map[string]int, error) {
	ctx, cancel := system.WithTimeout(ctx)
	defer cancel()
	conn, err := s.System.Dial(ctx)
	if err != nil {
		return nil, err
	}
	messages := map[string]int{}
	for _, queue := range s.System.Topology().Indexed() {
		state, _, err := conn.CertainQueueState(ctx, queue)
		if err != nil {
			return nil, err
		}
		messages[queue] = state.Messages
	}
	return messages, nil
}
