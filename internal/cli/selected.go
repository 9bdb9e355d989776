package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
)

// selected chooses the events of a command: by a query, a period and Elasticsearch's
// own query language, all of which must match.
type selected struct {
	period span
	dsl    string
}

func (q *selected) addFlags(cmd *cobra.Command) {
	q.period.addFlags(cmd)
	addGiven(cmd.Flags(), &q.dsl, "dsl", "file with a query in Elasticsearch's query DSL (JSON); - reads standard input")
}

// selection returns the selection, and reads the DSL from in if its file is "-".
func (q *selected) selection(s system, text string, in io.Reader) (eventstore.Selection, error) {
	node, err := q.node(s, text, in)
	return eventstore.Selection{Query: node}, err
}

func (q *selected) node(s system, text string, in io.Reader) (kql.Node, error) {
	node, err := s.parseQuery(text)
	if err != nil {
		return nil, err
	}
	if q.dsl != "" {
		raw, err := readDSL(q.dsl, in)
		if err != nil {
			return nil, err
		}
		node = kql.And{node, raw}
	}
	return q.period.limit(node)
}

// readDSL reads a query, or the body of a search that has one, as Kibana's Inspect
// shows it. The rest of such a body is ignored.
func readDSL(name string, in io.Reader) (kql.Raw, error) {
	text, err := readFile(name, in)
	if err != nil {
		return kql.Raw{}, usagef("--dsl: %w", err)
	}
	var body map[string]json.RawMessage
	if err := json.Unmarshal(text, &body); err != nil {
		return kql.Raw{}, usagef("--dsl %s: expected a JSON object such as {\"term\": {\"event.action\": \"poisoned\"}}: %w", name, err)
	}
	if inner, found := body["query"]; found {
		return kql.Raw{JSON: string(inner)}, nil
	}
	if len(body) != 1 {
		return kql.Raw{}, usagef("--dsl %s: expected one query, or the body of a search with \"query\" in it", name)
	}
	return kql.Raw{JSON: string(text)}, nil
}

func readFile(name string, in io.Reader) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(in)
	}
	return os.ReadFile(name)
}

// wanted returns the text of a query, and fails if it is empty: no query selects
// everything, which must be explicit.
func wanted(args []string, doing string) (string, error) {
	text := strings.Join(args, " ")
	if strings.TrimSpace(text) == "" {
		return "", usageError{fmt.Errorf("expected a query; '*' %s everything there is", doing)}
	}
	return text, nil
}
