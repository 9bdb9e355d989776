package config

import (
	"errors"
	"fmt"
	"maps"
	"net/mail"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/watershipmq/watership/eventstore/kql"
)

// Alerts are the settings of the role that notifies receivers. Without rules it does nothing.
type Alerts struct {
	Interval time.Duration // between two evaluations of a rule; default 30s

	// Receivers other than an Alertmanager get a notice GroupWait after the first change of an
	// alert, none within GroupInterval of another, and again after RepeatInterval while it
	// fires. Defaults: 30s, 5m and 12h.
	GroupWait, GroupInterval, RepeatInterval time.Duration

	Rules     []AlertRule     // each name once
	Receivers []AlertReceiver // each name once
}

// AlertRule is the condition of alerts.
type AlertRule struct {
	Name string
	On   string // new_group, regressed, poisoned, slow, receiver, paused, lag, gap or doctor

	Query      string        // of failures, or of attempts of slow and receiver, in KQL; "": all
	By         string        // of poisoned: queue, class or none; default: queue
	MoreThan   int           // of poisoned
	Time       string        // of slow: queue, handler or total; default: total
	SlowerThan time.Duration // of slow: the 95th percentile is above
	Within     time.Duration // of poisoned, slow, receiver and gap; default of gap: 1h
	Behind     time.Duration // of lag
	For        time.Duration // how long a condition holds before its alert fires; default: 0
	Severity   string        // default: warning
	Labels     map[string]string
	Receivers  []string // default: all
}

// AlertReceiver has exactly one kind of receiver.
type AlertReceiver struct {
	Name         string
	Alertmanager Alertmanager
	Webhook      AlertWebhook
	Slack        IncomingWebhook
	Teams        IncomingWebhook
	Discord      IncomingWebhook
	PagerDuty    IncidentService
	Opsgenie     IncidentService
	Mail         Mail
}

// AlertReceiverKinds lists the kinds of receivers.
func AlertReceiverKinds() []string {
	return []string{"alertmanager", "webhook", "slack", "teams", "discord", "pagerduty", "opsgenie", "mail"}
}

// Alertmanager is a Prometheus Alertmanager, or a cluster of them.
type Alertmanager struct {
	URLs []URL // all of them get each alert; none: another kind of receiver

	Username     string
	PasswordFile string
	TokenFile    string // of a bearer token
	TLS          TLS
}

// AlertWebhook is a URL to which notices are posted.
type AlertWebhook struct {
	URL          URL               // zero: another kind of receiver
	Template     string            // text/template of the body; "": the notice as JSON
	TemplateFile string            // instead of Template
	ContentType  string            // default: application/json
	SetHeaders   map[string]string // of the request
	TokenFile    string            // of a bearer token
	SecretFile   string            // secrets that sign requests, one a line
	TLS          TLS
}

// IncomingWebhook is an incoming webhook of Slack, Teams or Discord, or of a system that takes the same form.
type IncomingWebhook struct {
	URLFile string // the URL is a secret; "": another kind of receiver
}

// IncidentService is an integration of PagerDuty or Opsgenie.
type IncidentService struct {
	KeyFile string // the key of the integration; "": another kind of receiver
	URL     URL    // of the API; default: the API of the US
}

// Mail is a mail server with sender and recipients.
type Mail struct {
	Server       string   // host:port; "": another kind of receiver
	TLS          string   // starttls, tls or none; default: starttls
	CA           string   // certificate authorities in PEM; "": the system's
	Username     string   // "": no login
	PasswordFile string   //
	From         string   // address of the sender
	To           []string // addresses
}

func alertKeys(c *Alerts) []Key {
	return []Key{
		{Name: "alerts.interval", Default: "30s", Help: "time between two evaluations of the rules of alerts", read: scalar(duration(time.Second, time.Hour), &c.Interval)},
		{Name: "alerts.group_wait", Default: "30s", Help: "time for which changes of alerts are collected for one notice", read: scalar(duration(time.Second, time.Hour), &c.GroupWait)},
		{Name: "alerts.group_interval", Default: "5m", Help: "least time between two notices to a receiver", read: scalar(duration(time.Second, day), &c.GroupInterval)},
		{Name: "alerts.repeat_interval", Default: "12h", Help: "time after which an alert that still fires is sent again", read: scalar(duration(time.Minute, 365*day), &c.RepeatInterval)},
		{Name: "alerts.rules", Form: Structure, Help: "conditions of alerts", read: structures(readAlertRule, &c.Rules)},
		{Name: "alerts.receivers", Form: Structure, Help: "receivers of alerts", read: structures(readAlertReceiver, &c.Receivers)},
	}
}

func alertConditions() []string {
	return []string{"new_group", "regressed", "poisoned", "slow", "receiver", "paused", "lag", "gap", "doctor"}
}

func readAlertRule(l *loader, path string, n node) AlertRule {
	var r AlertRule
	l.readFields(path, n,
		structureField{name: "name", read: scalar(alertName, &r.Name)},
		structureField{name: "on", read: scalar(oneOf(alertConditions()...), &r.On)},
		structureField{name: "query", read: scalar(kqlQuery, &r.Query)},
		structureField{name: "by", read: scalar(oneOf("queue", "class", "none"), &r.By)},
		structureField{name: "more_than", read: scalar(wholeNumber(0, 1_000_000_000), &r.MoreThan)},
		structureField{name: "time", read: scalar(oneOf("queue", "handler", "total"), &r.Time)},
		structureField{name: "slower_than", read: scalar(duration(time.Millisecond, 30*day), &r.SlowerThan)},
		structureField{name: "within", read: scalar(duration(time.Second, 30*day), &r.Within)},
		structureField{name: "behind", read: scalar(duration(time.Second, 30*day), &r.Behind)},
		structureField{name: "for", read: scalar(duration(time.Second, 30*day), &r.For)},
		structureField{name: "severity", fallback: "warning", read: scalar(alertName, &r.Severity)},
		structureField{name: "labels", read: readAlertLabels(&r.Labels)},
		structureField{name: "receivers", read: scalars(alertName, &r.Receivers)},
	)
	return r
}

// alertName parses a name that is a value of a label and a part of messages.
func alertName(s string) (string, error) {
	if !regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}$`).MatchString(s) {
		return "", errors.New("expected up to 100 letters, digits, dots, dashes and underscores")
	}
	return s, nil
}

func kqlQuery(s string) (string, error) {
	if _, err := kql.Parse(s); err != nil || len(s) > 4000 {
		return "", fmt.Errorf("expected a query in KQL such as watership.queue: orders: %w", err)
	}
	return s, nil
}

func readAlertLabels(into *map[string]string) read {
	return readEach("expected values of labels by name", into, func(l *loader, at string, f field) {
		if !regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]{0,99}$`).MatchString(f.Name) || slices.Contains(alertLabelNames(), f.Name) {
			l.fail(at, node{Origin: f.Value.Origin}, "expected the name of a label, of letters, digits and underscores, and none of "+strings.Join(alertLabelNames(), ", "))
			return
		}
		var value string
		scalar(boundedText(1, 1000), &value)(l, at, f.Value)
		(*into)[f.Name] = value
	})
}

// alertLabelNames are the labels that alerts have by themselves.
func alertLabelNames() []string {
	return []string{"alertname", "rule", "on", "severity", "source", "queue", "class", "error_type", "error_group", "receiver", "check", "by", "gap", "test"}
}

func readAlertReceiver(l *loader, path string, n node) AlertReceiver {
	var r AlertReceiver
	l.readFields(path, n,
		structureField{name: "name", read: scalar(alertName, &r.Name)},
		structureField{name: "alertmanager", read: fields(func() []structureField {
			to := &r.Alertmanager
			return append(tlsFields(&to.TLS),
				structureField{name: "urls", read: scalars(address("http", "https"), &to.URLs)},
				structureField{name: "username", read: scalar(boundedText(1, 1000), &to.Username)},
				structureField{name: "password_file", read: scalar(boundedText(1, 4096), &to.PasswordFile)},
				structureField{name: "token_file", read: scalar(boundedText(1, 4096), &to.TokenFile)})
		})},
		structureField{name: "webhook", read: fields(func() []structureField {
			to := &r.Webhook
			return append(tlsFields(&to.TLS),
				structureField{name: "url", read: scalar(address("http", "https"), &to.URL)},
				structureField{name: "template", read: template(boundedText(1, 100_000), &to.Template)},
				structureField{name: "template_file", read: scalar(boundedText(1, 4096), &to.TemplateFile)},
				structureField{name: "content_type", fallback: "application/json", read: scalar(headerTemplate, &to.ContentType)},
				structureField{name: "set_headers", read: readSetHeaders(&to.SetHeaders)},
				structureField{name: "token_file", read: scalar(boundedText(1, 4096), &to.TokenFile)},
				structureField{name: "secret_file", read: scalar(boundedText(1, 4096), &to.SecretFile)})
		})},
		incomingWebhookField("slack", &r.Slack),
		incomingWebhookField("teams", &r.Teams),
		incomingWebhookField("discord", &r.Discord),
		incidentServiceField("pagerduty", "https://events.pagerduty.com", &r.PagerDuty),
		incidentServiceField("opsgenie", "https://api.opsgenie.com", &r.Opsgenie),
		structureField{name: "mail", read: fields(func() []structureField {
			to := &r.Mail
			return []structureField{
				{name: "server", read: scalar(mailServer, &to.Server)},
				{name: "tls", fallback: "starttls", read: scalar(oneOf("starttls", "tls", "none"), &to.TLS)},
				{name: "ca", read: scalar(boundedText(1, 4096), &to.CA)},
				{name: "username", read: scalar(boundedText(1, 1000), &to.Username)},
				{name: "password_file", read: scalar(boundedText(1, 4096), &to.PasswordFile)},
				{name: "from", read: scalar(mailAddress, &to.From)},
				{name: "to", read: scalars(mailAddress, &to.To)},
			}
		})},
	)
	return r
}

func incomingWebhookField(name string, into *IncomingWebhook) structureField {
	return structureField{name: name, read: fields(func() []structureField {
		return []structureField{{name: "url_file", read: scalar(boundedText(1, 4096), &into.URLFile)}}
	})}
}

func incidentServiceField(name, url string, into *IncidentService) structureField {
	return structureField{name: name, read: fields(func() []structureField {
		return []structureField{
			{name: "key_file", read: scalar(boundedText(1, 4096), &into.KeyFile)},
			{name: "url", fallback: url, read: scalar(address("http", "https"), &into.URL)},
		}
	})}
}

// fields reads a structure.
func fields(of func() []structureField) read {
	return func(l *loader, path string, n node) {
		l.record(path, node{Origin: n.Origin})
		l.readFields(path, n, of()...)
	}
}

func tlsFields(into *TLS) []structureField {
	return []structureField{{name: "tls", read: fields(func() []structureField {
		return []structureField{
			{name: "ca", read: scalar(boundedText(1, 4096), &into.CA)},
			{name: "cert", read: scalar(boundedText(1, 4096), &into.Cert)},
			{name: "key", read: scalar(boundedText(1, 4096), &into.Key)},
		}
	})}}
}

func mailServer(s string) (string, error) {
	if host, err := listenAddress(s); err != nil || host == "" || strings.HasPrefix(s, ":") {
		return "", errors.New("expected host:port such as smtp.example.com:587")
	}
	return s, nil
}

func mailAddress(s string) (string, error) {
	if _, err := mail.ParseAddress(s); err != nil || len(s) > 1000 {
		return "", errors.New("expected an address such as ops@example.com or Operations <ops@example.com>")
	}
	return s, nil
}

func (k checker) checkAlerts(a Alerts) {
	names := map[string]bool{}
	for i, r := range a.Receivers {
		at := element("alerts.receivers", i)
		k.rejectIf(at+".name", r.Name == "", "the name of the receiver")
		k.rejectIf(at+".name", names[r.Name], "each receiver once")
		names[r.Name] = true
		k.checkReceiver(at, r)
	}
	expected := "a receiver of alerts.receivers, of which there are none"
	if len(names) > 0 {
		expected = "a receiver of alerts.receivers: " + strings.Join(slices.Sorted(maps.Keys(names)), ", ")
	}
	rules := map[string]bool{}
	for i, r := range a.Rules {
		at := element("alerts.rules", i)
		k.rejectIf(at+".name", r.Name == "", "the name of the rule")
		k.rejectIf(at+".name", rules[r.Name], "each rule once")
		rules[r.Name] = true
		k.checkRule(at, r)
		for j, name := range r.Receivers {
			k.rejectIf(element(at+".receivers", j), !names[name], expected)
		}
		k.rejectIf(at+".receivers", r.Receivers != nil && len(r.Receivers) == 0, "at least one receiver, or none of the setting for all")
	}
	k.rejectIf("alerts.receivers", len(a.Rules) > 0 && len(a.Receivers) == 0, "at least one receiver, since there are rules")
}

// checkRule refuses fields that the condition of a rule does not have.
func (k checker) checkRule(at string, r AlertRule) {
	k.rejectIf(at+".on", r.On == "", "the condition: "+alternatives(alertConditions()))
	queried := slices.Contains([]string{"new_group", "regressed", "poisoned", "slow", "receiver"}, r.On)
	k.rejectIf(at+".query", r.Query != "" && !queried, "no query: only new_group, regressed, poisoned, slow and receiver have one")
	_, limited := k.seen[at+".more_than"]
	poisoned := r.On == "poisoned"
	k.rejectIf(at+".more_than", poisoned && !limited, "the number of failures that are no alert")
	k.rejectIf(at+".within", poisoned && r.Within == 0, "the time in which failures are counted, such as 10m")
	k.rejectIf(at+".more_than", limited && !poisoned, "nothing: only poisoned has it")
	k.rejectIf(at+".by", r.By != "" && !poisoned, "nothing: only poisoned has it")
	slow := r.On == "slow"
	k.rejectIf(at+".slower_than", slow && r.SlowerThan == 0, "the time that 95 percent of the attempts may take, such as 30s")
	k.rejectIf(at+".slower_than", r.SlowerThan > 0 && !slow, "nothing: only slow has it")
	k.rejectIf(at+".time", r.Time != "" && !slow, "nothing: only slow has it")
	k.rejectIf(at+".within", slow && r.Within == 0, "the time whose attempts count, such as 15m")
	broken := r.On == "receiver"
	k.rejectIf(at+".within", broken && r.Within == 0, "the time in which no request to a receiver has succeeded, such as 10m")
	k.rejectIf(at+".within", r.Within > 0 && !poisoned && !slow && !broken && r.On != "gap", "nothing: only poisoned, slow, receiver and gap have it")
	k.rejectIf(at+".behind", r.On == "lag" && r.Behind == 0, "how far the record may be behind, such as 5m")
	k.rejectIf(at+".behind", r.Behind > 0 && r.On != "lag", "nothing: only lag has it")
}

func (k checker) checkReceiver(at string, r AlertReceiver) {
	kinds := 0
	for _, kind := range AlertReceiverKinds() {
		if _, found := k.seen[at+"."+kind]; found {
			kinds++
		}
	}
	k.rejectIf(at, kinds != 1, "one of "+strings.Join(AlertReceiverKinds(), ", "))
	if kinds != 1 {
		return
	}
	has := func(kind string) bool { _, found := k.seen[at+"."+kind]; return found }
	am, hook, to := r.Alertmanager, r.Webhook, r.Mail
	k.rejectIf(at+".alertmanager.urls", has("alertmanager") && len(am.URLs) == 0, "the URLs of Alertmanager, such as [http://alertmanager:9093]")
	k.rejectIf(at+".alertmanager.password_file", (am.Username != "") != (am.PasswordFile != ""), "username and password_file, or neither")
	k.rejectIf(at+".alertmanager.token_file", am.TokenFile != "" && am.Username != "", "either a token or a login")
	k.rejectIf(at+".webhook.url", has("webhook") && hook.URL.IsZero(), "the URL to which notices are posted")
	k.rejectIf(at+".webhook.template_file", hook.Template != "" && hook.TemplateFile != "", "either template or template_file")
	for kind, chat := range map[string]IncomingWebhook{"slack": r.Slack, "teams": r.Teams, "discord": r.Discord} {
		k.rejectIf(at+"."+kind+".url_file", has(kind) && chat.URLFile == "", "the file with the URL of the incoming webhook")
	}
	for kind, service := range map[string]IncidentService{"pagerduty": r.PagerDuty, "opsgenie": r.Opsgenie} {
		k.rejectIf(at+"."+kind+".key_file", has(kind) && service.KeyFile == "", "the file with the key of the integration")
	}
	k.rejectIf(at+".mail.server", has("mail") && to.Server == "", "the mail server, such as smtp.example.com:587")
	k.rejectIf(at+".mail.from", has("mail") && to.From == "", "the address of the sender")
	k.rejectIf(at+".mail.to", has("mail") && len(to.To) == 0, "the addresses of recipients")
	k.rejectIf(at+".mail.password_file", (to.Username != "") != (to.PasswordFile != ""), "username and password_file, or neither")
	k.rejectIf(at+".mail.username", to.Username != "" && to.TLS == "none", "starttls or tls beside a login")
}

func (a Alerts) clone() Alerts {
	a.Rules = cloneEach(a.Rules, func(r AlertRule) AlertRule {
		r.Labels, r.Receivers = maps.Clone(r.Labels), slices.Clone(r.Receivers)
		return r
	})
	a.Receivers = cloneEach(a.Receivers, func(r AlertReceiver) AlertReceiver {
		r.Alertmanager.URLs, r.Mail.To, r.Webhook.SetHeaders = slices.Clone(r.Alertmanager.URLs), slices.Clone(r.Mail.To), maps.Clone(r.Webhook.SetHeaders)
		return r
	})
	return a
}
