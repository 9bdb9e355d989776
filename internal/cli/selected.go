package cli

import (
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/app"
)

// selected chooses the events of a command: by a query, a period and Elasticsearch's
// own query language, all of which must match.
type selected struct {
	period app.Period
	dsl    string
}

func (q *selected) addFlags(cmd *cobra.Command) {
	addPeriod(cmd, &q.period)
	addGiven(cmd.Flags(), &q.dsl, "dsl", "file with a query in Elasticsearch's query DSL (JSON); - reads standard input")
}

// selection returns the selection, and reads the DSL from in if its file is "-".
func (q *selected) selection(a *app.App, text string, in io.Reader) (eventstore.Selection, error) {
	node, err := q.node(a, text, in)
	return eventstore.Selection{Query: node}, err
}

func (q *selected) node(a *app.App, text string, in io.Reader) (kql.Node, error) {
	node, err := a.ParseQuery(text)
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
	return q.period.Limit(node)
}

// readDSL reads the file of --dsl.
func readDSL(name string, in io.Reader) (kql.Raw, error) {
	text, err := readFile(name, in)
	if err != nil {
		return kql.Raw{}, usagef("--dsl: %w", err)
	}
	raw, err := app.ParseDSL(text)
	if err != nil {
		return kql.Raw{}, usagef("--dsl %s: %w", name, err)
	}
	return raw, nil
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
		return "", usagef("expected a query; '*' %s everything there is", doing)
	}
	return text, nil
}
