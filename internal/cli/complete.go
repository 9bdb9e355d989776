package cli

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas"
)

// completionPatience is how long a shell waits for what the running system knows.
const completionPatience = time.Second

// addCompletions completes queries and the names of queues, exchanges, fields
// and so on. What cannot be found out in time is left out.
func addCompletions(root *cobra.Command, from *settings) {
	refuseOtherShells(root)
	commands := root.Commands()
	if discard, _, err := root.Find([]string{"failed", "discard"}); err == nil {
		commands = append(slices.Clone(commands), discard)
	}
	for _, cmd := range commands {
		switch cmd.Name() {
		case "search", "failed", "discard", "tail", "replay", "export":
			cmd.ValidArgsFunction = from.completeQuery
		case "show":
			cmd.ValidArgsFunction = from.completeMessages
		case "version", "doctor", "setup", "serve", "dev", "healthcheck":
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}
		for flag, list := range map[string]func(context.Context, system) []string{
			"fields": fieldNames, "by": fieldNames, "exchange": exchanges, "to-exchange": exchanges, "to-queue": queues, "group": errorGroups,
		} {
			if cmd.Flags().Lookup(flag) != nil {
				_ = cmd.RegisterFlagCompletionFunc(flag, from.completeNames(list)) // the flag is there
			}
		}
	}
}

// refuseOtherShells: of a shell that is not known, cobra's own command shows its help
// as if all were well.
func refuseOtherShells(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	completion, _, err := root.Find([]string{"completion"})
	if err != nil {
		return
	}
	completion.Args = noCommand
	completion.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	completion.Example = "  watership completion bash"
	for _, shell := range completion.Commands() {
		shell.Example = "  " + shell.CommandPath()
		if shell.Name() == "fish" {
			shell.RunE = fishCompletion
		}
	}
}

// completion is what cobra asks for.
type completion = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective)

func (s *settings) completeNames(list func(context.Context, system) []string) completion {
	return func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		system, err := s.system(streamsOf(cmd))
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionPatience)
		defer cancel()
		before := begun[:strings.LastIndex(begun, ",")+1] // of a list, only the last is begun
		return beginningWith(begun, before, list(ctx, system)), cobra.ShellCompDirectiveNoFileComp
	}
}

func fieldNames(_ context.Context, s system) []string {
	fields, err := s.fields()
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

// ends are the ends of names that mean the same field: queue for watership.queue.
func (s system) ends(names []string) []string {
	var found []string
	for _, name := range names {
		for _, end, more := strings.Cut(name, "."); more; _, end, more = strings.Cut(end, ".") {
			if field, err := s.fieldNamed(end); err == nil && field.Name == name {
				found = append(found, end)
			}
		}
	}
	return found
}

// errorGroups are the most frequent ones of what was given up.
func errorGroups(ctx context.Context, s system) []string {
	return valuesOf(ctx, s, poisoned(), "watership.error_group")
}

// exchanges are those of the configuration, and of the broker but for ours.
func exchanges(ctx context.Context, s system) []string {
	names := map[string]bool{}
	for _, tap := range s.cfg.Tap.Exchanges {
		names[tap.Name] = true
	}
	for _, route := range s.cfg.Routes {
		for _, bind := range route.Bind {
			names[bind.Exchange] = true
		}
	}
	if management, err := s.managementAPI(); err == nil {
		there, _ := management.Exchanges(ctx, s.vhost)
		for _, exchange := range there {
			if exchange.Name != "" && !exchange.Internal && !s.topology.Owns(exchange.Name) {
				names[exchange.Name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// queues are those of the configuration, and of the broker but for ours.
func queues(ctx context.Context, s system) []string {
	names := map[string]bool{}
	for _, route := range s.cfg.Routes {
		names[route.Queue] = true
	}
	if management, err := s.managementAPI(); err == nil {
		there, _ := management.Queues(ctx, s.vhost)
		for _, queue := range there {
			if !s.topology.Owns(queue.Name) {
				names[queue.Name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// completeQuery completes the last word of a query: the name of a field, or the
// value of one whose values are known.
func (s *settings) completeQuery(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	system, err := s.system(streamsOf(cmd))
	if err != nil {
		return nil, directive
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionPatience)
	defer cancel()
	word := begun[strings.LastIndexAny(begun, " (")+1:]
	before := strings.TrimSuffix(begun, word)
	field := lastWord(strings.TrimSuffix(strings.TrimRight(before, " "), ":"))
	if !strings.HasSuffix(strings.TrimRight(before, " "), ":") {
		names := fieldNames(ctx, system)
		if word != "" {
			names = append(names, system.ends(names)...)
		}
		for i := range names {
			names[i] += ":"
		}
		return beginningWith(begun, before, names), directive
	}
	if strings.HasPrefix(word, `"`) {
		return closed(beginningWith(begun, before+`"`, values(ctx, system, field))), directive
	}
	return beginningWith(begun, before, slices.DeleteFunc(values(ctx, system, field), needsQuotes)), directive
}

// closed puts the quote behind values that begin with one.
func closed(values []string) []string {
	for i := range values {
		values[i] += `"`
	}
	return values
}

// needsQuotes says whether a query without quotes around a value means something else.
func needsQuotes(value string) bool {
	node, err := kql.Parse("field: " + value)
	_, is := node.(kql.Is)
	return err != nil || !is
}

func lastWord(text string) string { return text[strings.LastIndexAny(text, " (")+1:] }

// values are those that a field can have, as far as they are known.
func values(ctx context.Context, s system, field string) []string {
	named, err := s.fieldNamed(field)
	if err != nil {
		return nil
	}
	switch named.Name {
	case "event.action":
		return actions()
	case "watership.queue":
		return queues(ctx, s)
	case "messaging.destination.name":
		return exchanges(ctx, s)
	}
	return valuesOf(ctx, s, kql.All{}, named.Name)
}

// valuesOf are the most frequent values of a field among some events; a text has none.
func valuesOf(ctx context.Context, s system, among kql.Node, field string) []string {
	store, err := s.store(ctx)
	if err != nil {
		return nil
	}
	defer store.Close()
	tally, _ := store.TopValues(ctx, eventstore.Selection{Query: among}, field, 20)
	var found []string
	for _, value := range tally.Values {
		found = append(found, value.Text)
	}
	return found
}

func actions() []string {
	return []string{
		string(schemas.Published), string(schemas.Handled), string(schemas.RetryScheduled), string(schemas.Poisoned),
		string(schemas.Replayed), string(schemas.Discarded), string(schemas.Quarantined), string(schemas.Dropped), string(schemas.Paused), string(schemas.Resumed),
	}
}
