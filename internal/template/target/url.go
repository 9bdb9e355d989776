package target

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// URL is the template of a URL, http or https. Fields may make its host, parts of its path
// and of its query, or all of it.
type URL struct {
	literal *url.URL // without fields; else nil

	whole                  bool   // the authority is a field with the whole URL
	scheme                 string // http or https; of a whole URL the one of hosts that have none
	authority, path, query Template
}

// ParseURL parses a template. Its errors do not quote the text, which may be secret.
func ParseURL(text string) (URL, error) {
	t, err := ParseTemplate(text)
	if err != nil {
		return URL{}, err
	}
	if t.isOneField() {
		return URL{whole: true, scheme: "https", authority: t}, nil
	}
	sample, err := sampleOf(t)
	if err != nil {
		return URL{}, err
	}
	if !t.HasFields() {
		return URL{literal: sample}, nil
	}
	u := URL{scheme: sample.Scheme}
	if err := u.split(t); err != nil {
		return URL{}, err
	}
	switch {
	case u.authority.HasFields() && sample.User != nil:
		return URL{}, errors.New("expected no login beside fields in the host: the message would choose who gets it; an Authorization can have fields")
	case u.path.HasFields() && hasDotSegment(sample.Path):
		return URL{}, errors.New("expected a path without . and .. as segments")
	}
	return u, nil
}

// sampleOf returns the URL with a value for each field.
func sampleOf(t Template) (*url.URL, error) {
	text, _ := t.Fill(func(Field) (string, error) { return "1", nil })
	sample, err := url.Parse(text)
	if err != nil || sample.Scheme != "http" && sample.Scheme != "https" || sample.Hostname() == "" || sample.Opaque != "" {
		return nil, errors.New("expected http or https and a host, or a field that is the whole URL")
	}
	if sample.Fragment != "" || t.HasFields() && strings.Contains(text, "#") {
		return nil, errors.New("expected # to be written as %23")
	}
	if t.HasFields() && strings.ContainsFunc(sample.RawQuery, isNoURLCharacter) {
		return nil, errors.New("expected %XX for spaces and other characters that a query cannot have")
	}
	return sample, nil
}

// split sets the parts of a URL, whose first text has at least the scheme.
func (u *URL) split(t Template) error {
	if t.parts[0].isField() || len(t.parts[0].text) < len(u.scheme+"://") {
		return errors.New("expected http:// or https:// before the first field, or nothing but a field that is the whole URL")
	}
	parts := slices.Clone(t.parts)
	parts[0].text = parts[0].text[len(u.scheme+"://"):]
	into := &u.authority
	for _, p := range parts {
		if p.isField() {
			into.parts = append(into.parts, p)
			continue
		}
		text := p.text
		if at := strings.IndexAny(text, "/?"); into == &u.authority && at >= 0 {
			into.add(text[:at])
			into, text = &u.path, text[at:]
		}
		if before, after, found := strings.Cut(text, "?"); into == &u.path && found {
			into.add(before)
			into, text = &u.query, after
		}
		into.add(text)
	}
	return nil
}

func (t *Template) add(text string) {
	if text != "" {
		t.parts = append(t.parts, part{text: text})
	}
}

// Methods lists the methods of requests.
func Methods() []string {
	return []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
}

func hasDotSegment(path string) bool {
	return slices.ContainsFunc(strings.Split(path, "/"), func(segment string) bool { return segment == "." || segment == ".." })
}

// HasFields reports whether the URL differs between messages.
func (u URL) HasFields() bool { return u.literal == nil }

// HostFromMessage reports whether a message chooses the host.
func (u URL) HostFromMessage() bool { return u.literal == nil && u.authority.HasFields() }

// Fill returns the URL for a message. A host of the message is one of hosts. No value adds
// a segment to the path or a parameter to the query. The errors about a message are
// Problems, or errors of value.
func (u URL) Fill(value Value, hosts []Host) (*url.URL, error) {
	if u.literal != nil {
		filled := *u.literal
		return &filled, nil
	}
	if u.whole {
		return u.fillWhole(value, hosts)
	}
	authority, err := u.authority.Fill(value)
	if err != nil {
		return nil, err
	}
	if u.authority.HasFields() {
		if authority, err = u.allowed(authority, u.scheme, hosts); err != nil {
			return nil, err
		}
	}
	path, err := u.path.Fill(asSegment(value))
	if err != nil {
		return nil, err
	}
	query, err := u.query.Fill(escaped(value))
	if err != nil {
		return nil, err
	}
	filled, err := url.Parse(u.scheme + "://" + authority + path)
	if err != nil {
		return nil, &Problem{InvalidField, u.names() + " would make no valid URL"}
	}
	if u.path.HasFields() && hasDotSegment(filled.Path) {
		return nil, &Problem{InvalidField, u.path.Names() + " would make . or .. a segment of the path"}
	}
	filled.RawQuery = query
	return filled, nil
}

// fillWhole returns the URL that a field has.
func (u URL) fillWhole(value Value, hosts []Host) (*url.URL, error) {
	field := u.authority.parts[0].field
	text, err := value(field)
	if err != nil {
		return nil, err
	}
	whole, err := url.Parse(text)
	switch {
	case err != nil || whole.Scheme != "http" && whole.Scheme != "https" || whole.Host == "" || whole.Opaque != "":
		return nil, Invalid(field, "is no URL with https and a host")
	case strings.ContainsFunc(text, isNoURLCharacter): // a space in a query would reach the server as it is
		return nil, Invalid(field, "has a character that a URL cannot have: expected it as %%XX")
	case whole.User != nil:
		return nil, Invalid(field, "has a login in its URL: expected none")
	case strings.Contains(text, "#"):
		return nil, Invalid(field, "has a # in its URL: expected none")
	}
	whole.Host, err = u.allowed(whole.Host, whole.Scheme, hosts)
	return whole, err
}

// isNoURLCharacter reports whether a URL cannot have a character (RFC 3986 §2).
func isNoURLCharacter(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-._~:/?#[]@!$&'()*+,;=%", r)
}

// allowed returns a host of the message, with its port if it has one, as it is sent.
func (u URL) allowed(text, scheme string, hosts []Host) (string, error) {
	to, err := parseHost(text)
	if err != nil {
		return "", &Problem{InvalidField, u.authority.Names() + " would make no valid host"}
	}
	if !slices.ContainsFunc(hosts, func(h Host) bool { return h.allows(to, scheme, u.scheme) }) {
		problem := fmt.Sprintf("%s://%s is not among the hosts that are allowed", scheme, to)
		if slices.ContainsFunc(hosts, func(h Host) bool { return h.allows(to, u.scheme, u.scheme) }) {
			problem += fmt.Sprintf(": it is allowed with %s only, unless the list has %s://%s", u.scheme, scheme, to)
		}
		return "", &Problem{RefusedHost, problem}
	}
	return to.String(), nil
}

// asSegment returns values for a part of a segment of a path. Escaped slashes and
// backslashes would do as well for a server that does not decode a path before it looks for
// the segments; many proxies do.
func asSegment(value Value) Value {
	return func(f Field) (string, error) {
		text, err := value(f)
		if err != nil {
			return "", err
		}
		if strings.ContainsAny(text, `/\`) {
			return "", Invalid(f, "has a slash: expected a single segment of the path")
		}
		return url.PathEscape(text), nil
	}
}

// escaped returns values for a part of a query.
func escaped(value Value) Value {
	return func(f Field) (string, error) {
		text, err := value(f)
		return url.QueryEscape(text), err
	}
}

func (u URL) names() string {
	return Template{slices.Concat(u.authority.parts, u.path.parts, u.query.parts)}.Names()
}
