package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/replayer/transform"
	"github.com/watershipmq/watership/schemas"
)

// failureEdit holds the arguments of `failed edit`.
type failureEdit struct {
	replay
	file    string // with the edited message; "": an editor opens it
	queue   string // that failed; "": the only one
	print   bool   // the message as an editor would open it, and send nothing
	environ []string
	folder  string // of the file of the editor; "": none

	failedAt string // the queue of the failure that is replaced; "": the message has no open failure
}

func newFailedEdit(from *settings) *cobra.Command {
	var e failureEdit
	cmd := &cobra.Command{
		Use:   "edit ID",
		Short: "Edit a failed message and send it to its queue",
		Long: `Open the headers, properties and body of a failed message in $VISUAL or $EDITOR, as JSON, and
send the edited message to the queue that failed. It names the failure that it replaces, which
is resolved when the edited message is handled. If the exchange or the routing key is edited,
the message is sent there, and the failure is discarded. A failure that is resolved, or
replayed already, is refused. A body that does not fit the schema of the route is said to be so
before the message is sent.

Members that are not edited stay as they are, bytes and AMQP types included. For many
messages, use "failed retry --transform FILE".

--file takes the whole message in the form that the editor opens, which --print prints.`,
		Example: `  watership failed edit order-7
  watership failed edit order-7 --print > fixed.json
  watership failed edit order-7 --file fixed.json --reason 'the currency was missing' --yes`,
		Args: exactArgs(1, "an id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			e.Streams, e.environ = streamsOf(cmd), from.environ
			if err := e.checkOperator(from); err != nil {
				return err
			}
			switch {
			case e.print && e.file != "":
				return usagef("--print and --file cannot be combined")
			case e.print:
			case e.file == "" && !terminal.IsTerminal(e.In):
				return usagef("failed edit opens an editor, and there is no terminal: give --file")
			case !e.yes && !terminal.IsTerminal(e.In):
				return usagef("failed edit asks before it sends, and there is no terminal to ask: give --yes")
			}
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error { return e.run(ctx, sys, args[0]) })
		},
	}
	addNonEmpty(cmd.Flags(), &e.file, "file", "file with the edited message, as --print prints it, in place of an editor; - reads standard input")
	addNonEmpty(cmd.Flags(), &e.queue, "queue", "queue that failed, of a message that failed at several")
	cmd.Flags().BoolVar(&e.print, "print", false, "print the message as JSON, as the editor opens it, and send nothing")
	cmd.Flags().StringVar(&e.operator, "operator", "", "name of the operator in the job's record (default: USER@HOST)")
	cmd.Flags().StringVar(&e.reason, "reason", "", "reason in the job's record")
	cmd.Flags().BoolVar(&e.dropReplyTo, "drop-reply-to", true, "remove reply_to, so that no client gets a second reply")
	cmd.Flags().BoolVar(&e.uncheckedRoutes, "unchecked-routes", false, "send even if it cannot be checked that the message reaches a queue")
	cmd.Flags().BoolVarP(&e.yes, "yes", "y", false, "skip the confirmation prompt")
	return cmd
}

func (e *failureEdit) run(ctx context.Context, sys backend, id string) error {
	ctx = withOperator(ctx, e.operator)
	version, err := sys.Version(ctx)
	if err != nil {
		return err
	}
	if !version.Caller.Bodies {
		return errors.New("the token may not read bodies, so no message can be edited: ask for a token with --bodies")
	}
	message, err := e.choose(ctx, sys, id)
	if err != nil {
		return err
	}
	before, err := transform.JSON(message)
	if err != nil {
		return fmt.Errorf("message %s: %w", id, err)
	}
	if e.print {
		text, err := indented(before)
		if err == nil {
			_, err = e.Out.Write(text)
		}
		return err
	}
	after, kept, err := e.edited(ctx, before)
	if err != nil {
		return err
	}
	routed := false
	if e.program, routed, err = transform.Difference(before, after); err != nil {
		return fmt.Errorf("%w%s", err, kept)
	}
	if e.program == "" {
		return errors.Join(errors.New("the message was not edited: nothing was sent"), e.removeFile())
	}
	edited, err := tryProgram(ctx, e.program, message)
	if err != nil {
		return fmt.Errorf("the edited message cannot be sent: %w%s", err, kept)
	}
	if e.toFailedQueue = !routed; e.toFailedQueue {
		if err := e.checkSchema(ctx, sys, edited); err != nil {
			return fmt.Errorf("%w%s", err, kept)
		}
	}
	if err := e.sendEdited(ctx, sys, id); err != nil {
		return fmt.Errorf("%w%s", err, kept)
	}
	if routed {
		err = e.discardFailure(ctx, sys)
	}
	return errors.Join(err, e.removeFile())
}

// checkSchema warns an operator whose edited body does not fit the schema of the route.
func (e *failureEdit) checkSchema(ctx context.Context, sys backend, edited schemas.Envelope) error {
	checked, err := messages.ValidateBody.Call(ctx, sys, messages.ToValidate(e.failedAt, edited))
	if err != nil || checked.Body.Error == "" {
		return err
	}
	_, err = fmt.Fprintf(e.Out, "the edited body does not fit %s, the schema of the route: %s\n", terminal.Cell(checked.Body.Schema, 0), terminal.Cell(checked.Body.Error, 0))
	return err
}

// discardFailure discards the failure of a message that was sent elsewhere: no report about its
// own queue resolves it. There is nothing to discard if its queue got the message all the same,
// and has handled it.
func (e *failureEdit) discardFailure(ctx context.Context, sys backend) error {
	var in failures.DiscardInput
	in.Body.IDs, in.Body.Reason = e.names, cmp.Or(e.reason, "edited, and sent elsewhere")
	done, err := failures.DiscardFailures.Call(ctx, sys, in)
	if err != nil {
		return fmt.Errorf("the edited message was sent, and its failure is not resolved (watership failed discard does that): %w", err)
	}
	if done.Body.Done > 0 {
		_, err = fmt.Fprintln(e.Out, "discarded the failure, since the message was sent elsewhere")
	}
	return err
}

// choose selects the open failure of a message, and returns the message as it failed there: a
// replay may have changed it. To print, a message without an open failure is enough.
func (e *failureEdit) choose(ctx context.Context, sys backend, id string) (schemas.Envelope, error) {
	found, _, err := findMessages(ctx, sys, id, false)
	if err != nil {
		return schemas.Envelope{}, err
	}
	found = slices.DeleteFunc(found, func(m foundMessage) bool { return len(e.failuresOf(m)) == 0 })
	switch {
	case len(found) == 0 && e.queue != "":
		return schemas.Envelope{}, fmt.Errorf("no message %q has failed for good at queue %s", id, e.queue)
	case len(found) == 0:
		return schemas.Envelope{}, fmt.Errorf("no message %q has failed for good", id)
	case e.print && len(found) == 1 && len(e.failuresOf(found[0])) == 1: // RabbitMQ is not needed
		return failedMessage(ctx, sys, id, e.failuresOf(found[0])[0], found)
	}
	var open []schemas.Event
	messages := 0 // with an open failure
	for _, m := range found {
		failures, problem := e.findOpen(ctx, sys, id, e.failuresOf(m))
		if open = append(open, failures...); len(failures) > 0 {
			messages++
		} else if err == nil {
			err = problem
		}
	}
	switch n := max(messages, len(found)); {
	case n > 1 && messages != 1:
		return schemas.Envelope{}, fmt.Errorf("%q names %d failed messages: give the fingerprint of one (watership show %s lists them)", id, n, id)
	case len(open) > 1:
		return schemas.Envelope{}, fmt.Errorf("message %s has failed at %s: give --queue with one of them", id, queuesOf(open))
	}
	switch {
	case len(open) == 1:
		e.names, e.failedAt = []string{open[0].EventID}, open[0].Queue
		return failedMessage(ctx, sys, id, open[0], found)
	case e.print:
		return failedMessage(ctx, sys, id, e.failuresOf(found[0])[0], found)
	}
	return schemas.Envelope{}, err
}

// failuresOf returns the latest failure of a message at the queue that is asked for, or at each.
func (e *failureEdit) failuresOf(m foundMessage) []schemas.Event {
	return slices.DeleteFunc(latestFailures(m.Events), func(failure schemas.Event) bool { return e.queue != "" && failure.Queue != e.queue })
}

func queuesOf(failures []schemas.Event) string {
	var queues []string
	for _, failure := range failures {
		queues = append(queues, failure.Queue)
	}
	slices.Sort(queues)
	return strings.Join(queues, " and ")
}

// findOpen returns the failures that are neither resolved nor replayed, or why the
// first is not open.
func (e *failureEdit) findOpen(ctx context.Context, sys backend, id string, failures []schemas.Event) (open []schemas.Event, err error) {
	e.toFailedQueue = true
	for _, failure := range failures {
		e.names = []string{failure.EventID}
		if _, problem := e.planOpen(ctx, sys, id); problem == nil {
			open = append(open, failure)
		} else if err == nil {
			err = problem
		}
	}
	return open, err
}

// planOpen plans to send the message in place of its failure, which must be open.
func (e *failureEdit) planOpen(ctx context.Context, sys backend, id string) (replayPlan, error) {
	plan, err := e.plan(ctx, sys)
	if err != nil || plan.Matched > 0 || plan.Bodiless > 0 {
		return plan, err
	}
	if err := replays.CheckPlan(plan.Plan, e.uncheckedRoutes, e.yes); err != nil {
		return plan, err
	}
	why := "it is not in the store"
	for _, reason := range slices.Sorted(maps.Keys(plan.LeftOut)) {
		why = replays.ReasonText(reason)
	}
	return plan, fmt.Errorf("message %s has no open failure: %s", id, why)
}

// sendEdited sends the edited message, unless its failure was resolved or replayed in the
// meantime.
func (e *failureEdit) sendEdited(ctx context.Context, sys backend, id string) error {
	plan, err := e.planOpen(ctx, sys, id)
	if err != nil {
		return err
	}
	job, err := e.send(ctx, sys, plan)
	switch {
	case err != nil || job.Sent > 0:
		return err
	case job.Skipped > 0:
		return fmt.Errorf("the failure of message %s was replayed, handled or discarded in the meantime: nothing was sent", id)
	}
	return fmt.Errorf("message %s was not sent", id)
}

// removeFile removes the file of the editor, which has the body of the message.
func (e *failureEdit) removeFile() error {
	if e.folder == "" {
		return nil
	}
	return os.RemoveAll(e.folder)
}

// failedMessage returns the message of a failure, whose body the event or another one of the
// same message has.
func failedMessage(ctx context.Context, sys backend, id string, failure schemas.Event, found []foundMessage) (schemas.Envelope, error) {
	for whole, err := range sys.Events(ctx, eventstore.Selection{Query: kql.FieldIs("event.id", failure.EventID), Limit: 1}) {
		if err != nil {
			return schemas.Envelope{}, err
		}
		failure = whole
	}
	if failure.BodyIn != schemas.BodyHere {
		for _, m := range found {
			if m.Event.Fingerprint == failure.Fingerprint && m.Event.BodyIn == schemas.BodyHere {
				failure = m.Event
			}
		}
	}
	switch {
	case failure.Envelope.Redacted:
		return schemas.Envelope{}, fmt.Errorf("message %s is redacted, so its text cannot be edited: replay it with --transform, which changes the original", id)
	case failure.BodyIn == schemas.BodyHere:
		return failure.Envelope, nil
	}
	return schemas.Envelope{}, fmt.Errorf("the body of message %s is not in the store", id)
}

// latestFailures returns the latest failure at each queue, the newest first.
func latestFailures(events []schemas.Event) (latest []schemas.Event) {
	failed := slices.DeleteFunc(slices.Clone(events), func(e schemas.Event) bool { return e.Action != schemas.Poisoned })
	slices.SortStableFunc(failed, func(a, b schemas.Event) int { return b.Time.Compare(a.Time) })
	queues := map[string]bool{}
	for _, event := range failed {
		if !queues[event.Queue] {
			queues[event.Queue] = true
			latest = append(latest, event)
		}
	}
	return latest
}

// edited returns the message as the user has edited it. kept says in which file it is, for
// errors that follow.
func (e *failureEdit) edited(ctx context.Context, before []byte) (after []byte, kept string, err error) {
	if e.file != "" {
		if after, err = readFile(e.file, e.In); err != nil {
			err = usagef("--file: %w", err)
		}
		return after, "", err
	}
	text, err := indented(before)
	if err != nil {
		return nil, "", err
	}
	if e.folder, err = os.MkdirTemp("", "watership-edit-"); err != nil {
		return nil, "", err
	}
	file := filepath.Join(e.folder, "message.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, "", err
	}
	if err := e.openEditor(ctx, file); err != nil {
		return nil, "", errors.Join(err, e.removeFile())
	}
	after, err = os.ReadFile(file)
	return after, "\nthe edited message is in " + file + ": failed edit --file takes it", err
}

// indented returns a message for people, with a newline at its end.
func indented(message []byte) ([]byte, error) {
	var text bytes.Buffer
	err := json.Indent(&text, message, "", "  ")
	return append(text.Bytes(), '\n'), err
}

// openEditor runs the editor of the environment, which may have arguments.
func (e *failureEdit) openEditor(ctx context.Context, file string) error {
	editor := "vi"
	for _, name := range []string{"EDITOR", "VISUAL"} {
		for _, variable := range e.environ {
			if value, is := strings.CutPrefix(variable, name+"="); is && value != "" {
				editor = value
			}
		}
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", editor+` "$1"`, "sh", file)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = e.In, e.Out, e.Err
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("the editor %q: %w", editor, err)
	}
	return nil
}

func tryProgram(ctx context.Context, text string, message schemas.Envelope) (schemas.Envelope, error) {
	program, err := transform.Parse(text)
	if err != nil {
		return message, err
	}
	made, _, err := program.Apply(ctx, message)
	var failed *transform.Error
	if errors.As(err, &failed) { // the user knows of no program
		return made, errors.New(strings.Replace(failed.Problem, "its output", "it", 1))
	}
	return made, err
}
