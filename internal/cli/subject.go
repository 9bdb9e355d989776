package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/subjects"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
	"github.com/watershipmq/watership/internal/render/quantity"
	"github.com/watershipmq/watership/internal/render/wording"
)

func newSubject(from *settings) *cobra.Command {
	var format outputFormat
	cmd := &cobra.Command{
		Use:   "subject [SUBJECT]",
		Short: "Show what is recorded about a person",
		Long: `Count what is recorded about a person whom messages are about: rules of redaction with
'subject: true' name that. SUBJECT is the value that these find, or its hash. Without it, it
is read from standard input, and is in no history of a shell. With -o ndjson the events are
written as export writes them.`,
		Example: "  watership subject C-4711\n  watership subject C-4711 -o ndjson > C-4711.ndjson",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			named, err := personOf(cmd, args)
			if err != nil {
				return err
			}
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error {
				out, err := subjects.FindSubject.Call(ctx, sys, subjects.FindInput{Body: named})
				if err != nil {
					return err
				}
				t := streamsOf(cmd)
				switch {
				case format.is("ndjson"):
					return export(ctx, sys, t, eventstore.Selection{Query: subjects.Query(out.Body.Hashes), Order: eventstore.BySequence}, false)
				case format.is("json"):
					return terminal.WriteIndentedJSON(t.Out, out.Body)
				}
				return printer{Streams: t}.printf("%s", strings.TrimSuffix(subjectText(out.Body), "\n"))
			})
		},
	}
	format.addFlag(cmd, "text", "json", "ndjson")
	return cmd
}

// newErase returns `erase`.
func newErase(from *settings) *cobra.Command {
	var a action
	cmd := &cobra.Command{
		Use:   "erase [SUBJECT]",
		Short: "Make the messages about a person unreadable for ever",
		Long: `Destroy the key of a person whom messages are about: nobody can open the originals of these
messages any more, in the store, in exports and in copies of events, and nobody can
compute the hashes in their documents. SUBJECT is the value that rules of redaction with
'subject: true' find, or its hash. Without it, it is read from standard input; then give
--yes or --dry-run. It cannot be undone.

An audited event has the hash, the operator and the reason. Other processes may use the
key for up to a minute. A report says what the key does not reach.`,
		Example: "  watership erase C-4711 --dry-run\n  watership erase C-4711 --reason 'request of 4 May' --yes",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.needReason(); err != nil {
				return err
			}
			if err := a.read(from, cmd, "erase"); err != nil {
				return err
			}
			if len(args) == 0 && !a.yes && !a.dryRun {
				return usagef("the subject is read from standard input, so that erase cannot ask: give --yes, or --dry-run to look first")
			}
			named, err := personOf(cmd, args)
			if err != nil {
				return err
			}
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error { return a.erase(ctx, sys, named) })
		},
	}
	a.addGuard(cmd)
	a.addFlags(cmd, "why (required)")
	return cmd
}

// personOf returns the subject of a command line, or of standard input.
func personOf(cmd *cobra.Command, args []string) (subjects.Subject, error) {
	value := strings.Join(args, "")
	if len(args) == 0 {
		text, err := readFile("-", cmd.InOrStdin())
		if err != nil {
			return subjects.Subject{}, err
		}
		value = strings.TrimRight(string(text), "\r\n")
	}
	if value == "" {
		return subjects.Subject{}, usagef("expected a subject, such as the id of a customer")
	}
	return subjects.Subject{Subject: value}, nil
}

func (a *action) erase(ctx context.Context, sys backend, named subjects.Subject) error {
	in := subjects.EraseInput{Body: subjects.Erasure{Subject: named}}
	var last subjects.Erased
	return a.operate(ctx, &eventfilter.Choice{}, &in.Body.Bounds, actionTexts{
		unit: "key",
		preview: func(answer) string {
			text := subjectText(last.SubjectRecord)
			if last.Matched == 0 {
				return text + "no key is left to destroy; to erase it again removes what an erasure that was cut off has left in the files of keys\n"
			}
			return text + unreachedText(last.SubjectRecord)
		},
		always: true, // a former erasure may have been cut off after it has deleted the keys
		question: func(found answer) string {
			if found.Matched == 0 {
				return "Remove what may be left of its keys?"
			}
			return fmt.Sprintf("Destroy %s for ever?", wording.Plural(found.Matched, "key"))
		},
		result: func(done answer) string {
			if done.Matched == 0 {
				return ""
			}
			return fmt.Sprintf("destroyed %s; other processes may use it for up to %s\n", wording.Plural(done.Done, "key"), quantity.FormatDuration(time.Duration(last.CachedFor)*time.Second))
		},
	}, func(ctx context.Context) (answer, error) {
		out, err := subjects.EraseSubject.Call(ctx, sys, in)
		last = out.Body
		return answer{last.Outcome, nil, last}, err
	})
}

// subjectText describes the record of a subject.
func subjectText(f subjects.SubjectRecord) string {
	name := strings.Join(f.Hashes, ", ")
	if f.Events == 0 && f.Keys == 0 {
		return name + ": nothing is recorded about it\n"
	}
	var page strings.Builder
	fmt.Fprintf(&page, "%s: %s, %s about it, %s of the same messages\n", name,
		wording.Plural(f.Messages, "message"), wording.Plural(f.Events, "event"), wording.Plural(f.Others, "other event"))
	if f.First != nil && f.Last != nil {
		fmt.Fprintf(&page, "recorded from %s to %s\n", terminal.TimeCell(*f.First), terminal.TimeCell(*f.Last))
	}
	if f.Keys == 0 {
		page.WriteString("no key opens the originals: it was erased, or none were kept\n")
	} else {
		fmt.Fprintf(&page, "%s the originals\n", wording.PluralVerb(f.Keys, "key", "opens", "open"))
	}
	if f.Unstorable > 0 {
		fmt.Fprintf(&page, "%s too large for the store, in the queue of unstorable messages\n", wording.PluralVerb(f.Unstorable, "original", "is", "are"))
	}
	return page.String()
}

// unreachedText lists the copies that a key does not reach, each with its remedy.
func unreachedText(f subjects.SubjectRecord) string {
	var page strings.Builder
	page.WriteString("this does not erase:\n")
	for _, queue := range slices.Sorted(maps.Keys(f.Waiting)) {
		fmt.Fprintf(&page, "  %6d  waiting for queue %s, in plain: they end with their next attempts, or see watership waiting cancel\n", f.Waiting[queue], terminal.Cell(queue, 120))
	}
	for _, p := range f.Parked {
		fmt.Fprintf(&page, "  %6d  parked in queue %s, of any person, in plain: look through them at the broker\n", p.Messages, terminal.Cell(p.Queue, 120))
	}
	if f.Unasked {
		page.WriteString("  parked messages: RabbitMQ could not be asked\n")
	}
	page.WriteString("  what was recorded before the rules, the data of services, messages in their queues,\n" +
		"  what subscriptions and projections were sent, and copies of the file or index of keys\n")
	return page.String()
}
