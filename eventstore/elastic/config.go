package elastic

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

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
	if !isStreamName(c.Stream) {
		return fmt.Errorf("stream %q of the Elasticsearch store: expected lower-case letters, digits and .-_, beginning with a letter or digit, up to 200 in all", c.Stream)
	}
	for stream, retention := range c.Retention {
		if !stream.IsValid() {
			return fmt.Errorf("retention of stream %q: the streams are %s and %s, and those of periods have these in their names", stream, schemas.Traffic, schemas.Failures)
		}
		if !isTimeValue(retention) {
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

// isTimeValue accepts the time units of Elasticsearch, and "" for no retention.
func isTimeValue(value string) bool {
	switch strings.TrimLeft(value, "0123456789") {
	case "d", "h", "m", "s", "ms", "micros", "nanos":
		return value[0] >= '0' && value[0] <= '9'
	}
	return value == ""
}
