package cli

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/cli/client"
	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/schemas"
)

// outputFormat is the format in which a list is written.
type outputFormat struct {
	name  string
	known []string
}

// addFlag adds the flag that chooses one of the formats; the first is the default.
func (o *outputFormat) addFlag(cmd *cobra.Command, known ...string) {
	o.name, o.known = known[0], known
	cmd.Flags().VarP(o, "output", "o", alternatives(known))
	complete := func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return known, cobra.ShellCompDirectiveNoFileComp
	}
	if err := cmd.RegisterFlagCompletionFunc("output", complete); err != nil {
		panic(err) // the flag is three lines above
	}
}

// Set implements pflag.Value.
func (o *outputFormat) Set(name string) error {
	if !slices.Contains(o.known, name) {
		return fmt.Errorf("expected %s", alternatives(o.known))
	}
	o.name = name
	return nil
}

// String implements pflag.Value.
func (o *outputFormat) String() string { return o.name }

// Type implements pflag.Value.
func (o *outputFormat) Type() string { return "format" }

func (o *outputFormat) is(names ...string) bool { return slices.Contains(names, o.name) }

// writeItems writes items as one JSON array or a JSON object per line, or else calls table.
func writeItems[T any](out io.Writer, format outputFormat, items []T, table func() error) error {
	switch format.name {
	case "json":
		return terminal.WriteIndentedJSON(out, append([]T{}, items...))
	case "ndjson":
		for _, item := range items {
			if err := terminal.WriteJSON(out, item); err != nil {
				return err
			}
		}
		return nil
	}
	return table()
}

// alternatives joins words as "a, b or c".
func alternatives(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// printer writes the lists of a command to its streams.
type printer struct {
	terminal.Streams
	screen terminal.Screen
}

func (p printer) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(p.Out, format+"\n", args...)
	return err
}

// eventWriter writes events one by one. end flushes the rest of them.
type eventWriter interface {
	event(e schemas.Event) error
	end() error
}

// write writes every readable event, and names the unreadable ones: they make the
// command fail, but not before all others are written.
func (p printer) write(w eventWriter, events iter.Seq2[schemas.Event, error]) (found int, err error) {
	unreadable := 0
	for event, err := range events {
		var failed *eventstore.Error
		var left *client.UnreadableError
		switch {
		case errors.As(err, &failed):
			if found > 0 { // else not even a header
				err = errors.Join(err, w.end())
			}
			return found, err
		case errors.As(err, &left):
			unreadable += left.Documents
			continue
		case err != nil:
			unreadable++
			p.Warn("%v", err)
			continue
		}
		found++
		if err := w.event(event); err != nil {
			return found, err
		}
	}
	if found > 0 {
		err = w.end()
	}
	if err == nil && unreadable > 0 {
		err = fmt.Errorf("%s could not be read", wording.Plural(unreadable, "document"))
	}
	return found + unreadable, err
}
