package elastic

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/watershipmq/watership/schemas"
)

// access has the addresses of the nodes and the credentials. The addresses are without
// credentials, so that no error or log prints a password.
type access struct {
	addresses          []string
	username, password string
	apiKey             string
}

func (c Config) access() (access, error) {
	a := access{username: c.Username, password: c.Password, apiKey: c.APIKey}
	if len(c.URLs) == 0 {
		return a, errors.New("the Elasticsearch store needs at least one URL, such as http://localhost:9200")
	}
	for i, raw := range c.URLs {
		node, err := url.Parse(raw)
		if err != nil || node.Host == "" || node.Scheme != "http" && node.Scheme != "https" {
			// The error of url.Parse can quote a part of the password.
			return a, fmt.Errorf("URL %d of the Elasticsearch store: expected something like https://user:password@host:9200 (special characters of a password as %%XX)", i+1)
		}
		if err := a.addCredentials(node); err != nil {
			return a, fmt.Errorf("URL %d of the Elasticsearch store (%s): %w", i+1, node.Redacted(), err)
		}
		a.addresses = append(a.addresses, node.Scheme+"://"+node.Host+strings.TrimRight(node.Path, "/"))
	}
	return a, a.check()
}

func (a *access) addCredentials(node *url.URL) error {
	if node.User == nil {
		return nil
	}
	password, _ := node.User.Password()
	if a.username != "" && (a.username != node.User.Username() || a.password != password) {
		return errors.New("its user or password differs from the others: one login serves all nodes")
	}
	a.username, a.password = node.User.Username(), password
	return nil
}

func (a *access) check() error {
	switch {
	case a.apiKey != "" && a.username != "":
		return errors.New("the Elasticsearch store has both a user and an API key: remove one of them")
	case (a.username == "") != (a.password == ""):
		return errors.New("the Elasticsearch store has a user without a password, or a password without a user")
	}
	return nil
}

func (c Config) check() error {
	if c.Product != "" && c.Product != Elasticsearch && c.Product != OpenSearch {
		return fmt.Errorf("product %q of the store: expected %q or %q", string(c.Product), string(Elasticsearch), string(OpenSearch))
	}
	if !isStreamName(c.Stream) {
		return fmt.Errorf("stream %q of the Elasticsearch store: expected lower-case letters, digits and .-_, beginning with a letter or digit, up to 200 in all", c.Stream)
	}
	for stream, retention := range c.Retention {
		if !stream.IsValid() {
			return fmt.Errorf("retention of stream %q: the streams are %s and %s, and those of periods have these in their names", stream, schemas.Traffic, schemas.Failures)
		}
		if _, ok := parseTimeValue(retention); !ok {
			return fmt.Errorf("retention %q of stream %s: expected a number and a unit, such as 30d or 12h", retention, stream)
		}
	}
	return nil
}

// isStreamName is stricter than Elasticsearch's own rule
// (https://www.elastic.co/guide/en/elasticsearch/reference/8.19/indices-create-data-stream.html):
// a name needs no escapes, and the longest backing index name fits in 255 bytes.
func isStreamName(name string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	return name != "" && len(name) <= 200 &&
		strings.Contains(letters, name[:1]) && strings.Trim(name, letters+".-_") == ""
}

// parseTimeValue reads a number with a time unit of Elasticsearch. "" is 0, for no retention.
func parseTimeValue(value string) (d time.Duration, ok bool) {
	if value == "" {
		return 0, true
	}
	unit := strings.TrimLeft(value, "0123456789")
	units := map[string]time.Duration{
		"d": 24 * time.Hour, "h": time.Hour, "m": time.Minute, "s": time.Second,
		"ms": time.Millisecond, "micros": time.Microsecond, "nanos": time.Nanosecond,
	}
	number, err := strconv.ParseInt(strings.TrimSuffix(value, unit), 10, 64)
	if units[unit] == 0 || err != nil {
		return 0, false
	}
	if number > int64(math.MaxInt64/units[unit]) {
		return math.MaxInt64, true
	}
	return time.Duration(number) * units[unit], true
}
