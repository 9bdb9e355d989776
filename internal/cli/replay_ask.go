package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/app"
	"github.com/watershipmq/watership/internal/terminal"
	"github.com/watershipmq/watership/internal/wording"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/replayer/edit"
)

func (r *replay) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	addGiven(flags, &r.ids, "ids", "file with message ids, fingerprints or event ids, one per line; - reads standard input")
	addGiven(flags, &r.dsl, "dsl", "file with a query in Elasticsearch's query DSL (JSON), combined with QUERY; - reads standard input")
	addGiven(flags, &r.group, "group", "only failures of this error group (watership.error_group)")
	flags.BoolVar(&r.toFailedQueue, "to-failed-queue", false, "send only to the queue that failed")
	addGiven(flags, &r.toQueue, "to-queue", "send only to this queue")
	addGiven(flags, &r.toExchange, "to-exchange", "send to this exchange")
	flags.StringVar(&r.key, "key", "", "routing key for --to-exchange (default: each message's own)")
	flags.StringArrayVar(&r.changes.Set, "set-header", nil, "set a header, NAME=VALUE or NAME:TYPE=VALUE with "+strings.Join(edit.HeaderTypes(), ", "))
	flags.StringArrayVar(&r.changes.Remove, "remove-header", nil, "remove a header")
	flags.StringArrayVar(&r.changes.RemoveProperties, "remove-property", nil, "remove a property: "+strings.Join(edit.RemovableProperties(), ", "))
	flags.BoolVar(&r.dryRun, "dry-run", false, "print the preview and stop")
	flags.BoolVarP(&r.yes, "yes", "y", false, "skip the confirmation prompt")
	flags.IntVar(&r.expect, "expect", 0, "stop unless exactly this many messages match")
	flags.BoolVar(&r.again, "again", false, "also send messages that were replayed or resolved before")
	flags.BoolVar(&r.uncheckedRoutes, "unchecked-routes", false, "send even if it cannot be checked that the messages reach a queue")
	flags.Float64Var(&r.rate, "rate", 0, "maximum messages per second; 0: no limit")
	flags.IntVar(&r.limit, "limit", 0, "maximum number of messages; 0: no limit")
	flags.IntVar(&r.canary, "canary", 0, "send this many first, wait for their outcome, and ask; with --yes, go on only if all were handled")
	flags.DurationVar(&r.canaryWait, "canary-wait", time.Minute, "maximum wait for the outcome of the canary")
	flags.StringVar(&r.operator, "operator", "", "name of the operator in the job's record (default: USER@HOST)")
	flags.StringVar(&r.reason, "reason", "", "reason in the job's record")
	addPeriod(cmd, &r.period)
}

func (r *replay) validate() error {
	targets := 0
	for _, given := range []bool{r.toFailedQueue, r.toQueue != "", r.toExchange != ""} {
		if given {
			targets++
		}
	}
	switch {
	case r.query == "" && r.ids == "" && r.group == "" && r.dsl == "":
		return usagef("expected a query, --ids, --dsl or --group; '*' replays everything there is")
	case r.ids == "-" && r.dsl == "-":
		return usagef("--ids and --dsl cannot both be standard input: give one of them a file")
	case targets > 1:
		return usagef("--to-failed-queue, --to-queue and --to-exchange exclude one another")
	case r.keyGiven && r.toExchange == "":
		return usagef("--key is for --to-exchange")
	case !(r.rate >= 0) || math.IsInf(r.rate, 0): // NaN is neither
		return usagef("--rate %g: expected 0 (no limit) or more", r.rate)
	case r.limit < 0:
		return usagef("--limit %d: expected 0 (no limit) or more", r.limit)
	case r.canary < 0:
		return usagef("--canary %d: expected 0 (none) or more", r.canary)
	case r.expect < 0:
		return usagef("--expect %d: expected 0 or more", r.expect)
	case !r.dryRun && !r.yes && (!terminal.IsTerminal(r.In) || r.ids == "-" || r.dsl == "-"):
		return usagef("replay asks before it sends, and there is no terminal to ask: give --yes, or --dry-run to look first")
	}
	if err := r.changes.Check(); err != nil {
		return app.InputError{Err: err}
	}
	return nil
}

// agreed reports whether a plan may be run. If not, the error says why; --dry-run and
// an empty plan need none.
func (r *replay) agreed(ctx context.Context, plan replayer.Plan) (bool, error) {
	gone := plan.Unroutable()
	switch {
	case r.expecting && plan.Total != r.expect:
		return false, fmt.Errorf("%s would be sent, %d expected: nothing was sent", wording.Plural(plan.Total, "message"), r.expect)
	case r.dryRun:
		return false, nil
	case plan.Total == 0 && plan.Unrecorded() > 0:
		return false, fmt.Errorf("nothing was sent: %s may have been sent before, which the store does not know yet; run watership serve, and repeat this",
			wording.Plural(plan.Unrecorded(), "message"))
	case plan.Total == 0:
		return false, nil
	case gone > 0 && !r.uncheckedRoutes:
		return false, fmt.Errorf("%s would reach no queue: bring the routes back, narrow the query, or go on with --unchecked-routes",
			wording.Plural(gone, "message"))
	case r.yes && plan.Log.Events > 0 && plan.Log.Consumers == 0 && !r.again:
		return false, fmt.Errorf("nothing was sent: failures may have been handled or discarded in %s that the store does not have; "+
			"run watership serve, and repeat this", wording.Plural(plan.Log.Events, "event"))
	case r.yes:
		return true, nil
	}
	yes, err := r.Ask(ctx, fmt.Sprintf("Send %s?", wording.Plural(plan.Total, "message")))
	if err == nil && !yes {
		err = errors.New("nothing was sent")
	}
	return yes, err
}
