package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/template/requestheader"
	"github.com/watershipmq/watership/internal/template/target"
	"github.com/watershipmq/watership/internal/topology/role"
)

// The parsers of values. Their errors list the values that are possible, and never
// repeat the value, which may hold a password.

func oneOf(words ...string) func(string) (string, error) {
	return func(s string) (string, error) {
		if !slices.Contains(words, s) {
			return "", errors.New("expected " + alternatives(words))
		}
		return s, nil
	}
}

func roleName(s string) (role.Role, error) {
	name, err := oneOf(roleNames()...)(s)
	return role.Role(name), err
}

func roleNames() []string {
	var names []string
	for _, r := range role.All() {
		names = append(names, string(r))
	}
	return names
}

// alternatives returns "a, b or c".
func alternatives(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

func boolean(s string) (bool, error) {
	if s != "true" && s != "false" {
		return false, errors.New("expected true or false")
	}
	return s == "true", nil
}

func wholeNumber(low, high int) func(string) (int, error) {
	return func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		if err != nil || n < low || n > high {
			return 0, fmt.Errorf("expected a whole number from %d to %d", low, high)
		}
		return n, nil
	}
}

// countOrOff parses a whole number up to a bound. It returns -1 for 0, which turns the
// setting off.
func countOrOff(high int) func(string) (int, error) {
	return func(s string) (int, error) {
		n, err := wholeNumber(0, high)(s)
		if n == 0 {
			n = -1
		}
		return n, err
	}
}

// number parses a decimal number within bounds.
func number(low, high float64) func(string) (float64, error) {
	return func(s string) (float64, error) {
		n, err := strconv.ParseFloat(s, 64)
		if err != nil || !(n >= low && n <= high) { // which NaN is not
			return 0, fmt.Errorf("expected a number from %v to %v", low, high)
		}
		return n, nil
	}
}

// boundedText parses text with a bounded number of bytes, as AMQP's short strings have.
func boundedText(low, high int) func(string) (string, error) {
	return func(s string) (string, error) {
		if len(s) < low || len(s) > high || !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
			return "", fmt.Errorf("expected text of %d to %d bytes", low, high)
		}
		return s, nil
	}
}

// headerName parses the name of a header that becomes a field: Elasticsearch refuses
// every document with a field whose name is blank.
func headerName(s string) (string, error) {
	if strings.TrimSpace(s) == "" {
		return "", errors.New("expected text of 1 to 255 bytes that is not blank")
	}
	return boundedText(1, 255)(s)
}

// maxPartitions bounds the index queues, because schemas parses the names of this many.
const maxPartitions = 64

// partitionKey parses the property that the copies in an index queue have in common.
func partitionKey(s string) (string, error) {
	header, isHeader := strings.CutPrefix(s, "headers.")
	switch {
	case s == "routing_key" || s == "message_id":
		return s, nil
	case !isHeader || strings.TrimSpace(header) == "" || len(header) > 100 || strings.ContainsFunc(header, unicode.IsControl) || !utf8.ValidString(header):
		return "", errors.New("expected routing_key, message_id or headers.NAME, with a name of 1 to 100 bytes")
	}
	return s, nil
}

// path parses the name of a file, or an empty text.
func path(s string) (string, error) { return boundedText(0, 4096)(s) }

// shortString is the longest name that AMQP can carry, in bytes.
const shortString = 255

// queueName parses the name of a queue that Watership declares.
func queueName(s string) (string, error) {
	if strings.HasPrefix(s, "amq.") {
		return "", errors.New("expected a name that does not begin with amq., which RabbitMQ keeps for itself")
	}
	return boundedText(1, shortString)(s)
}

func topologyPrefix(s string) (string, error) {
	if len(s) > 200 || strings.HasPrefix(s+".", "amq.") || !regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*$`).MatchString(s) {
		return "", errors.New("expected up to 200 letters, digits, dots, dashes and underscores, without amq. in front, and not amq")
	}
	return s, nil
}

// streamName parses the first part of the name of a data stream. Elasticsearch's own
// templates match every name that begins with one of its types of data
// (https://www.elastic.co/guide/en/elasticsearch/reference/8.19/index-templates.html).
func streamName(s string) (string, error) {
	if len(s) > 200 || !regexp.MustCompile(`^[a-z0-9][a-z0-9._-]*$`).MatchString(s) {
		return "", errors.New("expected up to 200 lower-case letters, digits, dots, dashes and underscores")
	}
	for _, reserved := range []string{"logs-", "metrics-", "traces-", "synthetics-", "profiling-"} {
		if strings.HasPrefix(s, reserved) {
			return "", errors.New("expected a name that does not begin with " + reserved + ", which Elasticsearch keeps for its own data streams")
		}
	}
	return s, nil
}

// address parses a URL with a host.
func address(schemes ...string) func(string) (URL, error) {
	return func(s string) (URL, error) {
		u, err := url.Parse(s)
		expected := fmt.Sprintf("expected a URL such as %s://user:password@host:port", schemes[0])
		switch {
		case err != nil:
			return URL{}, errors.New(expected + ", with other characters in the password written as %XX")
		case !slices.Contains(schemes, u.Scheme):
			return URL{}, errors.New(expected + ", with scheme " + alternatives(schemes))
		case u.Hostname() == "" || u.Opaque != "":
			return URL{}, errors.New(expected)
		case u.Port() != "" && !isPort(u.Port()):
			return URL{}, errors.New(expected + ", with a port from 1 to 65535")
		case u.Fragment != "":
			return URL{}, errors.New(expected + ", with # written as %23")
		}
		return NewURL(s), nil
	}
}

// brokerAddress parses the URL of RabbitMQ, or Embedded.
func brokerAddress(s string) (URL, error) {
	if s == Embedded {
		return NewURL(s), nil
	}
	if strings.HasPrefix(s, "embedded:") {
		return URL{}, errors.New("expected " + Embedded + " and nothing behind it: amqp.listen says where it listens, data where it keeps what it has")
	}
	u, err := serverAddress("amqp", "amqps")(s)
	if err != nil {
		return URL{}, fmt.Errorf("%w, or %s", err, Embedded)
	}
	if parsed, err := url.Parse(s); err == nil && strings.Contains(parsed.EscapedPath(), "@") { // the path would have a password
		return URL{}, errors.New("expected a URL such as amqp://user:password@host:port/vhost, with / in the password written as %2F, and @ in the vhost as %40")
	}
	return u, nil
}

// serverAddress parses one URL of a server.
func serverAddress(schemes ...string) func(string) (URL, error) {
	return func(s string) (URL, error) {
		if rabbit.IsList(s) {
			return URL{}, fmt.Errorf("expected one URL such as %s://user:password@host:port, or for a cluster the whole URL of each node: as a list in the file, with commas between in a variable or a flag (a comma in a path is written as %%2C)", schemes[0])
		}
		return address(schemes...)(s)
	}
}

// storeAddress parses the URL of Elasticsearch, or of an SQLite file.
func storeAddress(s string) (URL, error) {
	path, isFile := strings.CutPrefix(s, sqliteScheme)
	switch {
	case isFile && (path == "" || strings.HasPrefix(path, "//") || strings.ContainsRune(path, 0)):
		return URL{}, errors.New("expected sqlite: and the path of a file, such as sqlite:watership.db or sqlite:/var/lib/watership.db")
	case isFile:
		return NewURL(s), nil
	}
	u, err := serverAddress("http", "https")(s)
	if err != nil {
		return URL{}, fmt.Errorf("%w, or sqlite:PATH", err)
	}
	return u, nil
}

func isPort(s string) bool {
	n, err := strconv.Atoi(s)
	return err == nil && n > 0 && n < 1<<16
}

func listenAddress(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	_, port, err := net.SplitHostPort(s)
	if n, notNumber := strconv.Atoi(port); err != nil || notNumber != nil || n < 0 || n >= 1<<16 {
		return "", errors.New("expected host:port such as 127.0.0.1:8181, or nothing")
	}
	return s, nil
}

// httpStatus parses the status of a response, or a class of statuses.
func httpStatus(s string) (string, error) {
	if !regexp.MustCompile(`^[2-5]([0-9][0-9]|xx)$`).MatchString(s) {
		return "", errors.New("expected a status from 200 to 599, or 2xx, 3xx, 4xx or 5xx")
	}
	return s, nil
}

// requestHeader parses the name of a message header that may become a request's.
func requestHeader(s string) (string, error) { return s, requestheader.Check(s) }

// handlerURL parses the URL of a handler, which may have fields of the message.
func handlerURL(s string) (URL, error) {
	if !strings.ContainsAny(s, "{}") {
		return address("http", "https")(s)
	}
	_, err := target.ParseURL(s)
	return NewURL(s), err
}

// method parses the method of a request, or a template of it.
func method(s string) (string, error) {
	template, err := target.ParseTemplate(s)
	if err != nil || template.HasFields() {
		return s, err
	}
	return oneOf(target.Methods()...)(s)
}

// headerTemplate parses the value of a header of a request, which may have fields.
func headerTemplate(s string) (string, error) {
	if _, err := target.ParseTemplate(s); err != nil {
		return "", err
	}
	if s == "" || strings.ContainsFunc(s, unicode.IsControl) {
		return "", errors.New("expected text on one line")
	}
	return boundedText(1, 8192)(s)
}

// messageKey parses the template of a key.
func messageKey(s string) (string, error) {
	template, err := target.ParseTemplate(s)
	if err == nil && !template.HasFields() {
		err = errors.New("expected a field of the message, such as {headers.merchant}")
	}
	return s, err
}

// targetHost parses a host that messages may choose.
func targetHost(s string) (string, error) {
	_, err := target.ParseHost(s)
	return s, err
}

func network(s string) (netip.Prefix, error) {
	n, err := netip.ParsePrefix(s)
	if err != nil || n != n.Masked() || n.Addr().Is4In6() {
		return netip.Prefix{}, errors.New("expected a network such as 10.20.0.0/16 or fd00:20::/32")
	}
	return n, nil
}

// responseHeader parses the name of a header of a response.
func responseHeader(s string) (string, error) {
	if !requestheader.IsToken(s) {
		return "", errors.New("expected the name of a header, of letters, digits and dashes")
	}
	return s, nil
}

func jsonPointer(s string) (string, error) {
	if !strings.HasPrefix(s, "/") || len(s) > 1000 {
		return "", errors.New("expected a JSON pointer such as /error/code")
	}
	return s, nil
}

func logLevel(s string) (slog.Level, error) {
	words := []string{"debug", "info", "warn", "error"}
	levels := []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError}
	i := slices.Index(words, s)
	if i < 0 {
		return 0, errors.New("expected " + alternatives(words))
	}
	return levels[i], nil
}
