package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/watershipmq/watership/internal/template/messagefield"
	"github.com/watershipmq/watership/internal/template/requestheader"
	"github.com/watershipmq/watership/internal/template/target"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// TargetError is the reason why a message is poison without a request: it lacks a field of
// a template, or a request for it may not be sent. It has no value of the message but the
// host.
type TargetError struct {
	Template string // URL, method, or header and its name
	Problem  string // such as "the message has no headers.merchant_host"

	// Type is field_missing, field_invalid, host_not_allowed or address_not_allowed.
	Type string
}

func (e *TargetError) Error() string { return e.Template + " of the request: " + e.Problem }

// ErrorType returns the type of the failure for retry.TypeOf.
func (e *TargetError) ErrorType() string { return e.Type }

// templates are the parsed templates of a Config.
type templates struct {
	url     target.URL
	hosts   []target.Host
	method  target.Template
	headers map[string]target.Template // of SetHeaders
}

// templates returns all errors at once.
func (c Config) templates() (templates, error) {
	t := templates{headers: map[string]target.Template{}}
	var errs []error
	var err error
	if t.url, err = target.ParseURL(c.URL); err != nil {
		errs = append(errs, fmt.Errorf("URL %s: %w", shownURL(c.URL), err))
	}
	for _, text := range c.Hosts {
		host, err := target.ParseHost(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("host %q: %w", text, err))
		}
		t.hosts = append(t.hosts, host)
	}
	errs = append(errs, c.checkHosts(t.url.HostFromMessage()))
	if t.method, err = target.ParseTemplate(c.Method); err != nil || !t.method.HasFields() && !slices.Contains(target.Methods(), c.Method) && c.Method != "" {
		errs = append(errs, fmt.Errorf("method %q: expected %s, or a field with one of them", c.Method, strings.Join(target.Methods(), ", ")))
	}
	for name, text := range c.SetHeaders {
		if t.headers[name], err = target.ParseTemplate(text); err != nil {
			errs = append(errs, fmt.Errorf("value of header %q: %w", name, err))
		} else if !isFieldValue(text) {
			errs = append(errs, fmt.Errorf("value of header %q: expected text without line breaks", name))
		}
		if err := requestheader.CheckSet(name); err != nil {
			errs = append(errs, fmt.Errorf("header %q: %w", name, err))
		}
	}
	return t, errors.Join(errs...)
}

// checkHosts checks the settings that a host needs if a message chooses it.
func (c Config) checkHosts(fromMessage bool) error {
	switch {
	case !fromMessage && len(c.Hosts)+len(c.PrivateNetworks) > 0:
		return errors.New("hosts and private networks: expected none, as the host of the URL has no field of the message")
	case !fromMessage:
		return nil
	case len(c.Hosts) == 0:
		return errors.New("hosts: expected the hosts to which the URL may lead, as its host has fields of the message")
	case c.Client != nil && c.Client.CheckRedirect != nil:
		return errors.New("client: expected no CheckRedirect, as a redirect could lead to a host that is not allowed")
	case c.Client != nil && !canBeGuarded(c.Client.Transport):
		return errors.New("client: expected an *http.Transport without DialTLS and DialTLSContext, in which each address can be checked")
	}
	return nil
}

// request returns the request for a message.
func (p *poster) request(ctx context.Context, e schemas.Envelope, attempt retry.Attempt) (*http.Request, error) {
	value := func(f target.Field) (string, error) { return messagefield.Value(e, f) }
	to, err := p.url.Fill(value, p.hosts)
	if err != nil {
		return nil, targetError("URL", err)
	}
	method, err := p.method.Fill(value)
	if err == nil && method != "" && !slices.Contains(target.Methods(), method) {
		err = &target.Problem{Kind: target.InvalidField, Text: "expected " + strings.Join(target.Methods(), ", ") + " of " + p.method.Names()}
	}
	if err != nil {
		return nil, targetError("method", err)
	}
	if method == "" {
		method = http.MethodPost
	}
	request, err := http.NewRequestWithContext(ctx, method, to.String(), bytes.NewReader(e.Body))
	if err != nil {
		return nil, fmt.Errorf("creating a request to %s: %w", shown(to), withoutURL(err))
	}
	key, headers := idempotencyKey(e, attempt), newRequestHeaders()
	p.setHeaders(ctx, headers, e, attempt, key)
	request.Header = headers.Header
	for name, template := range p.templates.headers {
		text, err := template.Fill(value)
		if err != nil {
			return nil, targetError("header "+name, err)
		}
		request.Header.Set(name, text)
	}
	p.sign(request.Header, key, e.Body)
	return request, nil
}

// targetError returns a Problem as an error that makes the message poison.
func targetError(template string, err error) error {
	var problem *target.Problem
	if !errors.As(err, &problem) {
		return err
	}
	return retry.Permanent(&TargetError{template, problem.Text, problem.Kind})
}

// ParseKey parses a template with fields, as in Config.URL, and returns a function for
// pipeline.Fairness.Key: the key of a message is the text of the template. A message that lacks
// a field has no key.
func ParseKey(template string) (func(schemas.Envelope) string, error) {
	parsed, err := target.ParseTemplate(template)
	if err == nil && !parsed.HasFields() {
		err = errors.New("expected a field of the message, such as {headers.merchant}")
	}
	if err != nil {
		return nil, fmt.Errorf("key %q: %w", template, err)
	}
	return func(e schemas.Envelope) string {
		text, err := parsed.Fill(func(f target.Field) (string, error) { return messagefield.Value(e, f) })
		if err != nil {
			return ""
		}
		return text
	}, nil
}
