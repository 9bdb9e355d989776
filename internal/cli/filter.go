package cli

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/elastic"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/system"

	"github.com/spf13/pflag"
)

// filter selects events by a query, a period and a query in Elasticsearch's query DSL,
// all of which must match.
type filter struct {
	period system.Period
	dsl    string
}

func (q *filter) addFlags(cmd *cobra.Command) {
	addPeriod(cmd, &q.period)
	addNonEmpty(cmd.Flags(), &q.dsl, "dsl", "file with a query in Elasticsearch's query DSL (JSON); - reads standard input")
}

// selection returns the selection, and reads the DSL from in if its file is "-".
func (q *filter) selection(lang language, text string, in io.Reader) (eventstore.Selection, error) {
	node, err := q.node(lang, text, in)
	return eventstore.Selection{Query: node}, err
}

func (q *filter) node(lang language, text string, in io.Reader) (kql.Node, error) {
	node, err := lang.ParseQuery(text)
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
	raw, err := elastic.ParseQuery(text)
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

// requireQuery returns the text of a query. An empty one is an error: it would select
// everything, which must be explicit.
func requireQuery(args []string, verb string) (string, error) {
	text := strings.Join(args, " ")
	if strings.TrimSpace(text) == "" {
		return "", usagef("expected a query; '*' %s everything there is", verb)
	}
	return text, nil
}

func addPeriod(cmd *cobra.Command, p *system.Period) {
	addNonEmpty(cmd.Flags(), &p.Since, "since", "only events of the last 15m, 1h30m, 7d, and so on")
	addNonEmpty(cmd.Flags(), &p.From, "from", "only events at or after this time, such as 2026-05-04T03:00:00Z or now-1d/d")
	addNonEmpty(cmd.Flags(), &p.To, "to", "only events before this time")
}

// localTime formats a time of a document as the commands show it.
func localTime(text string) string {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return text
	}
	return terminal.TimeCell(at)
}

// readIDs reads the ids of --ids, one per line, without duplicates.
func readIDs(file string, in io.Reader) ([]string, error) {
	text, err := readFile(file, in)
	if err != nil {
		return nil, usagef("--ids: %w", err)
	}
	var ids []string
	for line := range strings.Lines(string(text)) {
		if id := strings.TrimSpace(line); id != "" {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil, usagef("--ids %s: expected ids, one a line, and there are none", file)
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// nonEmpty is the value of a flag that refuses an empty text. A script with --to-queue
// "$QUEUE" and no QUEUE would select or reach more than was meant.
type nonEmpty struct{ text *string }

func addNonEmpty(flags *pflag.FlagSet, text *string, name, usage string) {
	flags.Var(nonEmpty{text}, name, usage)
}

// Set implements pflag.Value.
func (n nonEmpty) Set(text string) error {
	if strings.TrimSpace(text) == "" {
		return errors.New("expected a value, or no such flag")
	}
	*n.text = text
	return nil
}

// String implements pflag.Value.
func (n nonEmpty) String() string { return *n.text }

// Type implements pflag.Value.
func (n nonEmpty) Type() string { return "string" }

// nonEmpties is the value of a flag that can be repeated, and refuses an empty text each time.
type nonEmpties struct{ texts *[]string }

// Set implements pflag.Value.
func (n nonEmpties) Set(text string) error {
	var one string
	if err := (nonEmpty{&one}).Set(text); err != nil {
		return err
	}
	*n.texts = append(*n.texts, one)
	return nil
}

// String implements pflag.Value.
func (n nonEmpties) String() string {
	if n.texts == nil {
		return ""
	}
	return strings.Join(*n.texts, ",")
}

// Type implements pflag.Value.
func (n nonEmpties) Type() string { return "string" }
