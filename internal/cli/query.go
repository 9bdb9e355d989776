package cli

import (
	"cmp"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/terminal"
)

// parseQuery parses a query and resolves its fields to their full names. Times without
// a zone are in the zone of the machine, in which times are shown, too.
func (s system) parseQuery(text string) (kql.Node, error) {
	node, err := kql.Parse(text)
	if err != nil {
		return nil, usageError{err}
	}
	fields, err := s.fields()
	if err != nil {
		return nil, err
	}
	node, err = kql.Resolve(node, fields)
	if err != nil {
		return nil, usageError{err}
	}
	return kql.InZone(node, fields, time.Now()), nil
}

// fields returns the fields of the mapping, and the labels of the configuration.
func (s system) fields() (kql.Fields, error) {
	fields, err := eventstore.Fields()
	fields.Labels = s.format().LabelFields()
	return fields, err
}

// span is the period to which a command is limited.
type span struct{ since, from, to string }

func (p *span) addFlags(cmd *cobra.Command) {
	addGiven(cmd.Flags(), &p.since, "since", "only events of the last 15m, 1h30m, 7d, and so on")
	addGiven(cmd.Flags(), &p.from, "from", "only events at or after this time, such as 2026-05-04T03:00:00Z or now-1d/d")
	addGiven(cmd.Flags(), &p.to, "to", "only events before this time")
}

// limit adds the period to a query.
func (p *span) limit(node kql.Node) (kql.Node, error) {
	if p.since != "" && p.from != "" {
		return nil, usagef("--since and --from cannot be combined")
	}
	from := p.from
	if p.since != "" {
		from = ago(p.since)
	}
	all := kql.And{node}
	for _, bound := range []struct {
		op                 kql.Op
		text, flag, format string
	}{
		{kql.GreaterOrEqual, from, cmp.Or(p.since, p.from), p.beginFormat()},
		{kql.Less, p.to, p.to, "--to %q: " + expectedTime},
	} {
		if bound.text == "" {
			continue
		}
		compared, err := timeBound(bound.op, bound.text)
		if err != nil {
			return nil, usagef(bound.format, bound.flag)
		}
		all = append(all, compared)
	}
	if len(all) == 1 {
		return node, nil
	}
	return all, p.checkOrder(from)
}

const expectedTime = "expected a time such as 2026-05-04T03:00:00Z, 2026-05-04 or now-1d"

// beginFormat returns the format of the error for an invalid --since or --from.
func (p *span) beginFormat() string {
	if p.since != "" {
		return "--since %q: expected a duration such as 15m, 1h30m or 7d"
	}
	return "--from %q: " + expectedTime
}

// checkOrder returns an error if the period, which begins at from, is empty.
func (p *span) checkOrder(from string) error {
	if from == "" || p.to == "" {
		return nil
	}
	now := time.Now()
	begin, err := kql.Instant(dateTime(from), now, kql.First)
	if err != nil {
		return err
	}
	end, err := kql.Instant(dateTime(p.to), now, kql.First)
	if err == nil && !begin.Before(end) {
		return usagef("no event can match: the period begins at %s and ends at %s", terminal.Time(begin), terminal.Time(end))
	}
	return err
}

// dateTime returns a time in the form of ISO 8601. The commands print times with a
// space.
func dateTime(text string) string { return strings.Replace(text, " ", "T", 1) }

// ago returns date math for a duration, in which several amounts may follow one
// another, as Go writes them: 1h30m.
func ago(duration string) string {
	return "now" + regexp.MustCompile(`\d+[a-zA-Z]`).ReplaceAllString(duration, "-$0")
}

// timeBound compares @timestamp with a time.
func timeBound(op kql.Op, text string) (kql.Node, error) {
	fields, err := eventstore.Fields()
	if err != nil {
		return nil, err
	}
	compared, err := kql.Resolve(kql.Range{
		Field: kql.Pattern{"@timestamp"}, Op: op,
		Value: kql.Value{Pattern: kql.Pattern{dateTime(text)}, Quoted: true},
	}, fields)
	if err != nil {
		return nil, err
	}
	return kql.InZone(compared, fields, time.Now()), nil
}

// about matches the events of a message by any of its ids.
func about(id string) kql.Node {
	var either kql.Or
	for _, field := range namingFields() {
		either = append(either, is(field, id))
	}
	return either
}

// namingFields returns the fields whose values name a message.
func namingFields() []string {
	return []string{"messaging.message.id", "watership.message", "watership.fingerprint", "event.id"}
}

func is(field, value string) kql.Node {
	return kql.Is{Field: kql.Pattern{field}, Value: kql.Value{Pattern: kql.Pattern{value}, Quoted: true}}
}

// localTime formats a time of a document as the commands show it.
func localTime(text string) string {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return text
	}
	return terminal.Time(at)
}
