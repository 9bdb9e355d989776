package config

import (
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/template/target"
)

// URL is a URL that may hold a password, which is hidden when the URL is printed,
// logged or encoded; Reveal returns it for a connection. The URL of a server can have
// further nodes, which differ in host and port only.
type URL struct {
	full  string
	nodes string // host:port of each further node, with spaces between; a text, so that URLs can be compared
}

// NewURL returns a URL, unchecked, with the host:port of further nodes.
func NewURL(full string, nodes ...string) URL { return URL{full, strings.Join(nodes, " ")} }

// Reveal returns the URL with its password.
func (u URL) Reveal() string { return u.full }

// Nodes returns the host:port of each further node.
func (u URL) Nodes() []string { return strings.Fields(u.nodes) }

// RevealAll returns the URL of each node with its password.
func (u URL) RevealAll() []string {
	all := []string{u.full}
	for _, host := range u.Nodes() {
		if other, err := rabbit.NodeURL(u.full, host); err == nil {
			all = append(all, other)
		}
	}
	return all
}

// IsZero reports whether the URL is empty.
func (u URL) IsZero() bool { return u.full == "" }

// Embedded is the URL of a broker in the process of serve.
const Embedded = "embedded://"

// sqliteScheme begins the URL of an SQLite file.
const sqliteScheme = "sqlite:"

// IsEmbedded reports whether the URL is Embedded.
func (u URL) IsEmbedded() bool { return u.full == Embedded }

// File returns the path of the URL's SQLite file, or "".
func (u URL) File() string {
	path, found := strings.CutPrefix(u.full, sqliteScheme)
	if !found {
		return ""
	}
	return path
}

// hasLogin reports whether the URL has a user.
func (u URL) hasLogin() bool {
	parsed, err := url.Parse(u.full)
	return err == nil && parsed.User != nil
}

// namesUserOnly reports whether the URL has a user, and no password.
func (u URL) namesUserOnly() bool {
	parsed, err := url.Parse(u.full)
	if err != nil {
		return false
	}
	_, password := parsed.User.Password()
	return parsed.User.Username() != "" && !password
}

// String returns the URL without its password, and the URLs of further nodes after commas.
func (u URL) String() string {
	all := u.RevealAll()
	for i, each := range all {
		all[i] = redactURL(each)
	}
	return strings.Join(all, ", ")
}

// Format writes String for every verb, so that no %d or %#v shows the password.
func (u URL) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, u.String()) }

// MarshalText encodes String.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// LogValue logs String.
func (u URL) LogValue() slog.Value { return slog.StringValue(u.String()) }

const hidden = "xxxxx"

// redactURL hides the password of a URL, and shows its fields of messages.
func redactURL(text string) string {
	t, err := target.ParseTemplate(text)
	if err != nil || !t.HasFields() {
		return redactPlainURL(text)
	}
	var names []string // by their marks
	marked, _ := t.Fill(func(f target.Field) (string, error) {
		mark := fmt.Sprintf("field-%d-", len(names)/2)
		names = append(names, mark, "{"+f.Name+"}")
		return mark, nil
	})
	if marked == names[0] {
		return text
	}
	return strings.NewReplacer(names...).Replace(redactPlainURL(marked))
}

// redactTemplate shows only the fields of a text, such as the value of a header.
func redactTemplate(text string) string {
	t, err := target.ParseTemplate(text)
	if err != nil {
		return hidden
	}
	return t.Format(func(string) string { return hidden })
}

// redactPlainURL hides the password of a URL without fields. Of text that cannot be parsed with
// certainty (a password may hold any character, unescaped), it shows only the
// scheme and the host after the last @.
func redactPlainURL(text string) string {
	if text == Embedded || strings.HasPrefix(text, sqliteScheme) && !strings.Contains(text, "@") {
		return text
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Fragment != "" || strings.Count(text, "@") > userSeparators(u) {
		return hideAll(text)
	}
	before, query, asks := strings.Cut(text, "?") // and not u.String, which escapes more than was escaped
	if _, has := u.User.Password(); has {
		login, rest, _ := strings.Cut(before, "@")
		scheme, login, _ := strings.Cut(login, "//")
		name, _, _ := strings.Cut(login, ":")
		before = scheme + "//" + name + ":" + hidden + "@" + rest
	}
	if !asks {
		return before
	}
	hide := isSecret
	if u.Scheme == "http" || u.Scheme == "https" { // any parameter of a web hook may be its secret
		hide = func(string) bool { return true }
	}
	return before + "?" + redactQuery(query, hide)
}

// userSeparators returns the number of @ that a URL has for its login.
func userSeparators(u *url.URL) int {
	if u.User == nil {
		return 0
	}
	return 1
}

// hideAll hides everything but the scheme and the host after the last @.
func hideAll(text string) string {
	if text == "" {
		return ""
	}
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		scheme, rest = "", text
	} else {
		scheme += "://"
	}
	at := strings.LastIndex(rest, "@")
	if at < 0 {
		return scheme + hidden
	}
	host, _, _ := strings.Cut(rest[at:], "?")
	return scheme + hidden + host
}

// redactQuery hides the values of the parameters that hide selects by name. A
// parameter without a name is hidden if hide selects the empty name.
func redactQuery(query string, hide func(name string) bool) string {
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		written, _, named := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(written)
		switch {
		case pair == "":
		case named && (err != nil || hide(name)):
			pairs[i] = written + "=" + hidden
		case !named && hide(""):
			pairs[i] = hidden
		}
	}
	return strings.Join(pairs, "&")
}

// isSecret reports whether a parameter of RabbitMQ's URLs holds a secret, such as the
// password of a private key.
func isSecret(name string) bool {
	name = strings.ToLower(name)
	for _, word := range []string{"pass", "secret", "token", "apikey", "api_key"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

// redact hides a possible password in text that may be a URL.
func redact(text string) string {
	before, _, found := strings.Cut(text, "@")
	switch {
	case strings.Contains(text, "://"):
		return redactURL(text)
	case found && strings.Contains(before, ":"):
		return hideAll(text)
	default:
		return text
	}
}
