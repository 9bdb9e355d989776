package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/schemas"
)

// completionTimeout bounds the requests for a completion.
const completionTimeout = time.Second

// addCompletions completes queries and the names of queues, exchanges, fields
// and so on. It offers nothing that the servers do not answer in time.
func addCompletions(root *cobra.Command, from *settings) {
	configureCompletion(root)
	commands := slices.Clone(root.Commands())
	for _, path := range [][]string{{"failed", "discard"}, {"stream", "replay"}} {
		if below, _, err := root.Find(path); err == nil {
			commands = append(commands, below)
		}
	}
	for _, cmd := range commands {
		switch strings.TrimPrefix(cmd.CommandPath(), root.Name()+" ") {
		case "search", "failed", "failed discard", "tail", "replay", "export":
			cmd.ValidArgsFunction = from.completeQuery
		case "show", "explain":
			cmd.ValidArgsFunction = from.completeArgument(messageIDs)
		case "stream", "stream replay":
			cmd.ValidArgsFunction = from.completeArgument(streamIDs)
		case "version", "licenses", "doctor", "setup", "serve", "dev", "healthcheck":
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}
		for flag, list := range map[string]func(context.Context, backend) []string{
			"fields": fieldNames, "by": fieldNames, "exchange": exchanges, "to-exchange": exchanges, "to-queue": queues, "queue": queues, "group": errorGroups,
		} {
			if cmd.Flags().Lookup(flag) != nil {
				_ = cmd.RegisterFlagCompletionFunc(flag, from.completeNames(list)) // the flag is there
			}
		}
	}
}

// configureCompletion makes cobra's completion command return an error for an unknown
// shell, for which it prints its help, and replaces the script for fish.
func configureCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	completion, _, err := root.Find([]string{"completion"})
	if err != nil {
		return
	}
	completion.Args = rejectUnknownCommand
	completion.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	completion.Example = "  watership completion bash"
	for _, shell := range completion.Commands() {
		shell.Example = "  " + shell.CommandPath()
		if shell.Name() == "fish" {
			shell.RunE = fishCompletion
		}
	}
}

// completion is a completion function of cobra.
type completion = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective)

// suggest returns what find finds with the system of a command within completionTimeout; nothing without a system.
func (s *settings) suggest(cmd *cobra.Command, directive cobra.ShellCompDirective, find func(context.Context, backend) []string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	sys, err := s.openSystem(ctx, cmd)
	if err != nil {
		return nil, directive
	}
	defer sys.Close()
	return find(ctx, sys), directive
}

func (s *settings) completeNames(list func(context.Context, backend) []string) completion {
	return func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		before := typed[:strings.LastIndex(typed, ",")+1] // of a list, only the last is typed
		return s.suggest(cmd, cobra.ShellCompDirectiveNoFileComp, func(ctx context.Context, sys backend) []string {
			return matching(typed, before, list(ctx, sys))
		})
	}
}

func fieldNames(_ context.Context, sys backend) []string {
	fields, err := sys.Fields()
	if err != nil {
		return nil
	}
	var names []string
	for _, field := range fields.Known {
		if !strings.HasSuffix(field.Name, ".*") {
			names = append(names, field.Name)
		}
	}
	return append(names, fields.Labels...)
}

// shortNames returns the ends of names that mean the same field: queue for
// watership.queue.
func shortNames(lang language, names []string) []string {
	var found []string
	for _, name := range names {
		for _, end, more := strings.Cut(name, "."); more; _, end, more = strings.Cut(end, ".") {
			if field, err := lang.Field(end); err == nil && field.Name == name {
				found = append(found, end)
			}
		}
	}
	return found
}

// errorGroups returns the most frequent error groups of failures.
func errorGroups(ctx context.Context, sys backend) []string {
	return topValues(ctx, sys, history.GivenUp(), "watership.error_group")
}

// completeQuery completes the last word of a query: the name of a field, or a known
// value.
func (s *settings) completeQuery(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	return s.suggest(cmd, directive, func(ctx context.Context, sys backend) []string { return queryWords(ctx, sys, typed) })
}

// queryWords returns a query with each of the words that may be its last.
func queryWords(ctx context.Context, sys backend, typed string) []string {
	word := typed[strings.LastIndexAny(typed, " (")+1:]
	before := strings.TrimSuffix(typed, word)
	field := lastWord(strings.TrimSuffix(strings.TrimRight(before, " "), ":"))
	if !strings.HasSuffix(strings.TrimRight(before, " "), ":") {
		names := fieldNames(ctx, sys)
		if word != "" {
			names = append(names, shortNames(sys, names)...)
		}
		for i := range names {
			names[i] += ":"
		}
		return matching(typed, before, names)
	}
	if strings.HasPrefix(word, `"`) {
		return withClosingQuote(matching(typed, before+`"`, values(ctx, sys, field)))
	}
	return matching(typed, before, slices.DeleteFunc(values(ctx, sys, field), needsQuotes))
}

// withClosingQuote appends a quote to each value.
func withClosingQuote(values []string) []string {
	for i := range values {
		values[i] += `"`
	}
	return values
}

// needsQuotes reports whether a query has another meaning without quotes around a value.
func needsQuotes(value string) bool {
	node, err := kql.Parse("field: " + value)
	_, is := node.(kql.Is)
	return err != nil || !is
}

func lastWord(text string) string { return text[strings.LastIndexAny(text, " (")+1:] }

// values returns the known values of a field.
func values(ctx context.Context, sys backend, field string) []string {
	named, err := sys.Field(field)
	if err != nil {
		return nil
	}
	switch named.Name {
	case "event.action":
		return actions()
	case "watership.queue":
		return queues(ctx, sys)
	case "messaging.destination.name":
		return exchanges(ctx, sys)
	}
	return topValues(ctx, sys, kql.All{}, named.Name)
}

// topValues returns the most frequent values of a field among some events; none of a text.
func topValues(ctx context.Context, sys backend, among kql.Node, field string) []string {
	counted, _ := messages.CountValues.Call(ctx, sys, messages.ValuesInput{QueryFilter: queryFilter(among), Field: field, Limit: 20})
	var found []string
	for _, value := range counted.Body.Values {
		found = append(found, value.Value)
	}
	return found
}

func actions() []string {
	return []string{
		string(schemas.Published), string(schemas.Handled), string(schemas.RetryScheduled), string(schemas.Poisoned),
		string(schemas.Replayed), string(schemas.Discarded), string(schemas.Rescheduled), string(schemas.Quarantined), string(schemas.Dropped), string(schemas.Paused), string(schemas.Resumed), string(schemas.Audited), string(schemas.Triaged),
	}
}

// maxSearchedEvents is the number of newest events that are searched for message ids.
const maxSearchedEvents = 200

// completeArgument completes the only argument of a command.
func (s *settings) completeArgument(ids func(ctx context.Context, sys backend, typed string) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
		return s.suggest(cmd, directive, func(ctx context.Context, sys backend) []string { return matching(typed, "", ids(ctx, sys, typed)) })
	}
}

// streamIDs returns the ids of the streams with most events.
func streamIDs(ctx context.Context, sys backend, typed string) []string {
	begins := kql.Is{Field: kql.Pattern{"watership.stream.id"}, Value: kql.Value{Pattern: kql.Pattern{typed, ""}}}
	return topValues(ctx, sys, begins, "watership.stream.id")
}

// messageIDs returns the ids of the newest messages.
func messageIDs(ctx context.Context, sys backend, typed string) []string {
	begins := kql.Is{
		Field: kql.Pattern{"messaging.message.id"}, Value: kql.Value{Pattern: kql.Pattern{typed, ""}},
	}
	var ids []string
	for event, err := range sys.Events(ctx, eventstore.Selection{Query: begins, Limit: maxSearchedEvents, WithoutBody: true}) {
		id := event.Envelope.Properties.MessageID
		if err == nil && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}
