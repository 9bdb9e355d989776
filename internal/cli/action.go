package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/cli/client"
	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
	"github.com/watershipmq/watership/internal/render/reason"
	"github.com/watershipmq/watership/internal/render/wording"
)

// action has the arguments of a command that finds and changes messages. All such commands have the
// same flow: preview, guard of the number, question, change, and result.
type action struct {
	terminal.Streams
	filter filter
	file   string // of --ids; "": none

	operator, reason string
	dryRun, yes      bool
	expect           *int // nil: any number
	format           outputFormat
}

// addSelection adds the flags that select messages.
func (a *action) addSelection(cmd *cobra.Command) {
	a.filter.addFlags(cmd)
	addNonEmpty(cmd.Flags(), &a.file, "ids", "file with message or event ids, one per line; - reads standard input")
}

// addFlags adds the flags that all such commands have.
func (a *action) addFlags(cmd *cobra.Command, why string) {
	flags := cmd.Flags()
	flags.BoolVar(&a.dryRun, "dry-run", false, "print the preview and stop")
	flags.StringVar(&a.operator, "operator", "", "name of the operator in the record (default: USER@HOST)")
	flags.StringVar(&a.reason, "reason", "", why)
	a.format.addFlag(cmd, "text", "json")
}

// addGuard adds the flags of commands that ask, and that stop at another number.
func (a *action) addGuard(cmd *cobra.Command) {
	a.addExpect(cmd)
	a.addYes(cmd)
}

func (a *action) addExpect(cmd *cobra.Command) {
	cmd.Flags().Var(number{&a.expect}, "expect", "stop unless exactly this many match")
}

func (a *action) addYes(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&a.yes, "yes", "y", false, "skip the confirmation prompt")
}

// read sets the streams, and returns an error for flags that exclude each other. name is the
// command in messages; "": it does not ask.
func (a *action) read(from *settings, cmd *cobra.Command, name string) error {
	a.Streams = streamsOf(cmd)
	if err := a.checkOperator(from); err != nil {
		return err
	}
	switch {
	case a.file == "-" && a.filter.dsl == "-":
		return usagef("--ids and --dsl cannot both be standard input: give one of them a file")
	case name != "" && !a.yes && !a.dryRun && (!terminal.IsTerminal(a.In) || a.file == "-" || a.filter.dsl == "-"):
		return usagef("%s asks first, and there is no terminal to ask: give --yes, or --dry-run to look first", name)
	}
	if err := reason.Check(a.reason); err != nil {
		return usagef("--reason: %w", err)
	}
	return nil
}

// checkOperator returns an error for a name that a server would not record.
func (a *action) checkOperator(from *settings) error {
	if a.operator != "" && from.hasServer() {
		return usagef("--operator cannot be combined with --server, which records the name of the token")
	}
	return nil
}

// needReason returns an error if there is no reason for a change.
func (a *action) needReason() error {
	if strings.TrimSpace(a.reason) == "" && !a.dryRun {
		return usagef("--reason is required")
	}
	return nil
}

// isSelective reports whether a query or ids select something.
func (a *action) isSelective(query string) bool {
	return strings.TrimSpace(query) != "" || a.file != "" || a.filter.dsl != ""
}

// choice returns the query and the ids as an operation takes them. Times relative to now become
// absolute, so that the change is about the messages of the preview. isNamed is whether the request
// names something else, too, and so needs no query.
func (a *action) choice(sys backend, query string, isNamed bool) (c eventfilter.Choice, err error) {
	node, err := a.filter.node(sys, query, a.In)
	if err == nil && a.file != "" {
		c.IDs, err = readIDs(a.file, a.In)
	}
	if err != nil {
		return c, err
	}
	if node, err = client.AbsoluteTimes(node); err != nil {
		return c, err
	}
	text, dsl := client.Split(node)
	if c.Query = text; text == "" && dsl == "" && !isNamed && len(c.IDs) == 0 {
		c.Query = "*"
	}
	c.DSL, err = client.ObjectOf(dsl)
	return c, err
}

// found is the preview of a change.
type found struct {
	number   int    // of what would be changed
	text     string // for a reader
	body     any    // for -o json
	refused  error  // why it cannot be changed
	question string
}

// flow is what differs between changes.
type flow struct {
	preview func(ctx context.Context) (found, error)

	always bool // make the change although the preview found none

	// change makes the change that was previewed. It returns the result for a reader and for
	// -o json; nil: there is none. Both may be set although there is an error.
	change func(ctx context.Context) (text string, body any, err error)
}

// run runs a flow. A preview that cannot be printed changes nothing, since its reader relies on it.
func (a *action) run(ctx context.Context, f flow) error {
	ctx = withOperator(ctx, a.operator)
	first, err := f.preview(ctx)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(a.readers(), first.text); err != nil {
		return cannotPrint(err, a.dryRun)
	}
	if first.refused != nil || a.dryRun || first.number == 0 && !f.always {
		return cmp.Or(a.writeJSON(first.body), first.refused)
	}
	if agreed, err := a.agree(ctx, first.question); !agreed {
		return err
	}
	return a.finish(f.change(ctx))
}

// finish prints the result of a change.
func (a *action) finish(text string, body any, err error) error {
	if _, printErr := io.WriteString(a.readers(), text); err == nil {
		err = printErr
	}
	if printErr := a.writeJSON(body); err == nil {
		err = printErr
	}
	return err
}

// cannotPrint returns the error of a preview that cannot be printed. A closed pipe is no failure of
// a command that changes nothing anyway.
func cannotPrint(err error, dryRun bool) error {
	if dryRun {
		return err
	}
	return fmt.Errorf("cannot print the preview, so nothing was changed: %v", err)
}

// readers returns the stream for readers: the JSON is alone on the output.
func (a *action) readers() io.Writer {
	if !a.format.is("json") {
		return a.Out
	}
	if a.yes || a.dryRun {
		return io.Discard
	}
	return a.Err
}

func (a *action) writeJSON(body any) error {
	if !a.format.is("json") || body == nil {
		return nil
	}
	return terminal.WriteIndentedJSON(a.Out, body)
}

// agree asks whether to go on.
func (a *action) agree(ctx context.Context, question string) (bool, error) {
	if a.yes {
		return true, nil
	}
	yes, err := a.Ask(ctx, question)
	if err == nil && !yes {
		err = errors.New("nothing was changed")
	}
	return yes, err
}

// check returns an error for a number that --expect does not have, and for none. nothing is the
// error for none; "": it is no error.
func (a *action) check(number int, unit, nothing string) error {
	if err := checkNumber(a.expect, number, unit); err != nil {
		return err
	}
	if a.expect == nil && number == 0 && nothing != "" {
		return errors.New(nothing)
	}
	return nil
}

// checkNumber returns an error for another number than --expect has.
func checkNumber(expect *int, number int, unit string) error {
	if err := operation.CheckNumber(expect, number, unit); err != nil {
		return errors.New(err.Error()) // its remedy is for callers of the API
	}
	return nil
}

// answer is the response of an operation on many.
type answer struct {
	operation.Outcome
	parked []failures.ParkedCopies
	body   any
}

// actionTexts are the texts of an operation on many.
type actionTexts struct {
	unit     string              // noun of the things to change
	nothing  string              // the error if none matches
	place    string              // before the name of a queue, such as "failed at"
	preview  func(answer) string // replaces the lines of the queues; may be nil
	question func(answer) string
	result   func(answer) string // may be empty
	missing  string              // what to do about events that the store does not have
	always   bool                // send the request although none matches
}

// operate runs the flow of an operation: call sends the request with the bounds, twice.
func (a *action) operate(ctx context.Context, choice *eventfilter.Choice, bounds *operation.Bounds, w actionTexts, call func(ctx context.Context) (answer, error)) error {
	bounds.Reason = a.reason
	return a.run(ctx, flow{
		always: w.always,
		preview: func(ctx context.Context) (found, error) {
			bounds.DryRun = true
			first, err := call(ctx)
			if err != nil {
				return found{}, err
			}
			text := unknownLine(first.Unknown)
			if w.preview != nil {
				text += w.preview(first)
			} else {
				text += queueLines(w.place, first.Queues)
			}
			bounds.DryRun, bounds.Expect, choice.UpTo = false, &first.Matched, first.UpTo
			return found{first.Matched, text, first.body, a.check(first.Matched, w.unit, w.nothing), w.question(first)}, nil
		},
		change: func(ctx context.Context) (string, any, error) {
			done, err := call(ctx)
			text := w.result(done) + parkedLines(done.parked...)
			if err == nil && done.Missing > 0 {
				text += fmt.Sprintf("the store does not have %s of these yet: %s\n", wording.Plural(done.Missing, "event"), cmp.Or(w.missing, "run watership serve"))
			}
			if done.Queues == nil { // there is no response
				done.body = nil
			}
			return text, done.body, err
		},
	})
}

// queueLines has the number of messages of each queue.
func queueLines(verb string, messages map[string]int) string {
	var page strings.Builder
	for _, queue := range slices.Sorted(maps.Keys(messages)) {
		fmt.Fprintf(&page, "  %6d  %s queue %s\n", messages[queue], verb, terminal.Cell(queue, 120))
	}
	return page.String()
}

// parkedLines names the parking queues of some queues whose failures are resolved, since no
// command takes the copies out of them.
func parkedLines(parked ...failures.ParkedCopies) string {
	var page strings.Builder
	for _, p := range parked {
		fmt.Fprintf(&page, "queue %s keeps %s: delete them at the broker when nobody needs them\n",
			terminal.Cell(p.Queue, 120), wording.Plural(p.Messages, "parked message"))
	}
	return page.String()
}

const maxUnknown = 10

// unknownLine names the ids that name nothing: mistakes in a list.
func unknownLine(unknown []string) string {
	if len(unknown) == 0 {
		return ""
	}
	shown := make([]string, min(len(unknown), maxUnknown))
	for i := range shown {
		shown[i] = terminal.Cell(unknown[i], 80)
	}
	more := ""
	if len(unknown) > maxUnknown {
		more = ", …"
	}
	atLeast := ""
	if len(unknown) == eventfilter.MaxUnknown {
		atLeast = " or more"
	}
	return fmt.Sprintf("  %6d%s  not found: %s%s\n", len(unknown), atLeast, strings.Join(shown, ", "), more)
}
