package cli

import (
	"encoding/json"
	"io"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/replayer/edit"
	"github.com/watershipmq/watership/replayer/transform"
)

func (r *replay) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	r.addSelection(cmd)
	r.addGuard(cmd)
	r.action.addFlags(cmd, "reason in the job's record")
	addNonEmpty(flags, &r.group, "group", "only failures of this error group, the text of watership.error_group")
	flags.BoolVar(&r.toFailedQueue, "to-failed-queue", false, "send only to the queue that failed")
	addNonEmpty(flags, &r.toQueue, "to-queue", "send only to this queue")
	addNonEmpty(flags, &r.toExchange, "to-exchange", "send to this exchange")
	flags.StringVar(&r.key, "key", "", "routing key for --to-exchange (default: each message's own)")
	flags.StringArrayVar(&r.changes.Set, "set-header", nil, "set a header, NAME=VALUE or NAME:TYPE=VALUE with "+strings.Join(edit.HeaderTypes(), ", "))
	flags.StringArrayVar(&r.changes.Remove, "remove-header", nil, "remove a header")
	flags.BoolVar(&r.changes.Clear, "clear-headers", false, "remove all headers, except CC")
	flags.StringSliceVar(&r.changes.Keep, "keep-headers", nil, "remove all headers, except CC and these")
	flags.StringArrayVar(&r.changes.SetProperties, "set-property", nil, "set a property, NAME=VALUE with one of "+strings.Join(edit.Properties(), ", "))
	flags.StringArrayVar(&r.changes.RemoveProperties, "remove-property", nil, "remove a property that --set-property can set")
	addNonEmpty(flags, &r.transform, "transform", "file with a program in the language of jq that changes each message; - reads standard input")
	flags.BoolVar(&r.dropReplyTo, "drop-reply-to", true, "remove reply_to, so that no client gets a second reply")
	flags.BoolVar(&r.again, "again", false, "also send messages that were replayed or resolved before")
	flags.BoolVar(&r.uncheckedRoutes, "unchecked-routes", false, "send even if it cannot be checked that the messages reach a queue")
	flags.Float64Var(&r.rate, "rate", 0, "maximum messages per second; 0: no limit")
	flags.Var(&r.pace, "pace", "keep the spacing of the events, such as 1x, 2x (twice as fast) or 0.5x")
	addDuration(flags, &r.maxGap, "max-gap", 0, "maximum pause between two messages of --pace; 0: no maximum")
	flags.IntVar(&r.inFlight, "at-most-in-flight", 0, "maximum number of sent messages about which no consumer has reported; 0: no limit")
	flags.Var(newChoice(&r.order, "stream", "version"), "order", "stream: send a message of a stream when the one before it was handled; version: send the messages of each stream by their versions")
	flags.Var(newChoice(&r.onFailure, "stop", "continue"), "on-failure", "of --order stream: stop a stream at a message that fails (default), or continue")
	flags.IntVar(&r.limit, "limit", 0, "maximum number of messages; 0: no limit")
	r.steps.add(flags)
	flags.BoolVar(&r.follow, "follow", false, "send each match in order, then each new one until Ctrl-C; with --to-queue")
	r.shadow.add(cmd)
}

func (r *replay) validate() error {
	targets := 0
	for _, given := range []bool{r.toFailedQueue, r.toQueue != "", r.toExchange != ""} {
		if given {
			targets++
		}
	}
	switch {
	case r.query == "" && r.file == "" && r.group == "" && r.filter.dsl == "":
		return usagef("expected a query, --ids, --dsl or --group; '*' replays everything there is")
	case len(r.fromInput()) > 1:
		return usagef("%s cannot both be standard input: give one of them a file", strings.Join(r.fromInput(), " and "))
	case targets > 1:
		return usagef("--to-failed-queue, --to-queue and --to-exchange exclude one another")
	case r.keyGiven && r.toExchange == "":
		return usagef("--key is for --to-exchange")
	case !(r.rate >= 0) || math.IsInf(r.rate, 0): // NaN is neither
		return usagef("--rate %g: expected 0 (no limit) or more", r.rate)
	case r.inFlight < 0 || r.inFlight > replayer.MaxInFlight:
		return usagef("--at-most-in-flight %d: expected 1 to %d, or 0 (no limit)", r.inFlight, replayer.MaxInFlight)
	case r.maxGap > 0 && r.pace == 0:
		return usagef("--max-gap is for --pace")
	case r.onFailure != "" && r.order != replayer.ByStream:
		return usagef("--on-failure is for --order stream")
	case r.order == replayer.ByVersion && (r.limit > 0 || r.steps.ramp(true) != nil):
		return usagef("--limit, --canary, --ramp and --stop-if are not for --order version, which sends all messages")
	case r.limit < 0:
		return usagef("--limit %d: expected 0 (no limit) or more", r.limit)
	case r.steps.canary < 0:
		return usagef("--canary %d: expected 0 (none) or more", r.steps.canary)
	case r.steps.mistake() != nil:
		return usagef("--ramp, --stop-if: %w", r.steps.mistake())
	case !r.dryRun && !r.yes && r.shadow.url == "" && (!terminal.IsTerminal(r.In) || len(r.fromInput()) > 0):
		return usagef("replay asks before it sends, and there is no terminal to ask: give --yes, or --dry-run to look first")
	}
	r.changes.Clear = r.changes.Clear || len(r.changes.Keep) > 0
	if err := r.changes.Check(); err != nil {
		return system.InputError{Err: err}
	}
	return nil
}

// request reads the files of the flags.
func (r *replay) request() (replays.Request, error) {
	if r.file != "" {
		names, err := readIDs(r.file, r.In)
		if err != nil {
			return replays.Request{}, err
		}
		r.names = names
	}
	request := replays.Request{
		Query: r.query, IDs: r.names, Group: r.group, Period: r.filter.period,
		Job: replayer.Job{
			Limit: r.limit, Rate: r.rate, Again: r.again, Changes: r.changes, DropReplyTo: r.dropReplyTo, Reason: r.reason,
			Operator: r.operator, Target: r.target(),
			Pace: float64(r.pace), MaxGap: r.maxGap, InFlight: r.inFlight, Order: r.order,
		},
	}
	request.Job.Ramp, _ = r.steps.ramp(r.yes).Replayer() // which was validated
	if r.onFailure == replayer.GoOn {
		request.Job.OnFailure = replayer.GoOn
	}
	request.Job.Transform = r.program
	if r.transform != "" {
		program, err := readProgram("--transform", r.transform, r.In)
		if err != nil {
			return request, err
		}
		request.Job.Transform = program
	}
	if r.filter.dsl == "" {
		return request, nil
	}
	raw, err := readDSL(r.filter.dsl, r.In)
	request.DSL = json.RawMessage(raw.JSON)
	return request, err
}

// fromInput returns the flags whose file is standard input.
func (r *replay) fromInput() (flags []string) {
	for _, flag := range []struct{ name, file string }{{"--ids", r.file}, {"--dsl", r.filter.dsl}, {"--transform", r.transform}} {
		if flag.file == "-" {
			flags = append(flags, flag.name)
		}
	}
	return flags
}

// readProgram returns the program in the file of a flag.
func readProgram(flag, file string, in io.Reader) (string, error) {
	program, err := readFile(file, in)
	if err != nil {
		return "", usagef("%s: %w", flag, err)
	}
	if strings.TrimSpace(string(program)) == "" {
		return "", usagef("%s %s: the file is empty, and such a program changes nothing", flag, file)
	}
	if _, err := transform.Parse(string(program)); err != nil {
		return "", usagef("%s %s: %w", flag, file, err)
	}
	return string(program), nil
}

func (r *replay) target() replayer.Target {
	switch {
	case r.toFailedQueue:
		return replayer.Target{Kind: replayer.ToFailedQueue}
	case r.toQueue != "":
		return replayer.Target{Kind: replayer.ToQueue, Queue: r.toQueue}
	case r.toExchange != "" && r.keyGiven:
		return replayer.Target{Kind: replayer.ToExchange, Exchange: r.toExchange, Key: &r.key}
	case r.toExchange != "":
		return replayer.Target{Kind: replayer.ToExchange, Exchange: r.toExchange}
	}
	return replayer.Target{Kind: replayer.ToOrigin}
}
