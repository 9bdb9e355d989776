package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/deliveries"
	"github.com/watershipmq/watership/internal/operation"
)

func newReceivers(from *settings) *cobra.Command {
	var asked filter
	var limit int
	var format outputFormat
	cmd := &cobra.Command{
		Use:     "receivers [QUERY]",
		Aliases: []string{"receiver"},
		Short:   "List the receivers of webhooks: how their requests fared, and which are broken",
		Long: `List the receivers of routes with fairness, such as the receivers of webhooks: those with
most failed requests first. A receiver is the key of the route's fairness, and the field
watership.receiver of events.

  OK       requests that succeeded, of those in the period
  BROKEN   since when no request has succeeded
  WAIT     messages that wait for their next attempt
  MISSED   messages that were given up, which "receivers recover" sends again`,
		Example: `  watership receivers --since 24h
  watership receivers 'queue: merchant-hooks and receiver: *.example.com' --since 1h
  watership receivers show merchant-hooks shop.example.com
  watership receivers recover shop.example.com --since 6h --dry-run
  watership receivers hold merchant-hooks shop.example.com --reason 'they move'`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 || limit > 1000 {
				return usagef("--limit %d: expected a number from 1 to 1000", limit)
			}
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error {
				node, err := asked.node(sys, strings.Join(args, " "), cmd.InOrStdin())
				if err != nil {
					return err
				}
				found, err := deliveries.ListReceivers.Call(ctx, sys, deliveries.ListInput{QueryFilter: queryFilter(node), Limit: limit})
				if err != nil {
					return err
				}
				to := from.printer(cmd)
				return writeItems(to.Out, format, found.Body.Receivers, func() error { return printReceivers(to, found.Body.Receivers) })
			})
		},
	}
	asked.addFlags(cmd)
	cmd.Flags().IntVarP(&limit, "limit", "n", 50, "maximum number of receivers")
	format.addFlag(cmd, "table", "json", "ndjson")
	cmd.AddCommand(newReceiverShow(from), newReceiverRecover(from), newReceiverHold(from), newReceiverRelease(from))
	return cmd
}

func printReceivers(p printer, found []deliveries.ReceiverState) error {
	if len(found) == 0 {
		return p.printf("nothing found")
	}
	number := func(title string) terminal.Column {
		return terminal.Column{Title: title, Fixed: true, Right: true}
	}
	t := terminal.NewTable(p.Out, p.screen, terminal.Column{Title: "QUEUE"}, terminal.Column{Title: "RECEIVER"}, number("REQUESTS"), number("OK"), number("P95"),
		terminal.Column{Title: "BROKEN", Fixed: true, Times: true}, number("WAIT"), number("MISSED"), terminal.Column{Title: "LAST ANSWER", DropOrder: 1})
	for _, r := range found {
		broken, p95 := "", ""
		if r.Requests > 0 {
			p95 = secondsText(r.P95)
		}
		if r.BrokenSince != nil {
			broken = terminal.TimeCell(*r.BrokenSince)
		}
		row := []string{r.Queue, r.Name, strconv.FormatInt(r.Requests, 10), successText(r), p95, broken, strconv.Itoa(r.Waiting), strconv.Itoa(r.Missed), r.LastAnswer}
		if err := t.Row(row...); err != nil {
			return err
		}
	}
	return t.Flush()
}

// successText returns the share of requests that succeeded. All of them is said only if none has failed.
func successText(r deliveries.ReceiverState) string {
	switch {
	case r.Requests == 0:
		return ""
	case r.Succeeded < r.Requests:
		return fmt.Sprintf("%.1f%%", min(99.9, 100*float64(r.Succeeded)/float64(r.Requests)))
	}
	return "100%"
}

func newReceiverShow(from *settings) *cobra.Command {
	var since string
	var format outputFormat
	cmd := &cobra.Command{
		Use:   "show QUEUE RECEIVER",
		Short: "Show how the requests to one receiver fared",
		Example: `  watership receivers show merchant-hooks shop.example.com
  watership receivers show merchant-hooks shop.example.com --since 7d -o json`,
		Args: exactArgs(2, "the queue of the route and the receiver"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error {
				found, err := deliveries.GetReceiver.Call(ctx, sys, deliveries.GetInput{Queue: args[0], Name: args[1], Since: since})
				if err != nil {
					return err
				}
				to := from.printer(cmd)
				return writeItems(to.Out, format, []deliveries.ReceiverState{found.Body}, func() error { return printReceiver(to, found.Body, since) })
			})
		},
	}
	cmd.Flags().StringVar(&since, "since", "24h", "count requests of this time")
	format.addFlag(cmd, "table", "json")
	return cmd
}

func printReceiver(p printer, r deliveries.ReceiverState, since string) error {
	at := func(t *time.Time) string {
		if t == nil {
			return "none is recorded"
		}
		return terminal.Time(*t)
	}
	requests := "none in " + since
	if r.Requests > 0 {
		requests = fmt.Sprintf("%d in %s, %s succeeded, p95 %s", r.Requests, since, successText(r), secondsText(r.P95))
	}
	lines := [][2]string{
		{"receiver", r.Name},
		{"queue", r.Queue},
		{"requests", requests},
		{"last success", at(r.LastSuccess)},
		{"last answer", strings.TrimSpace(at(r.LastAt) + " " + r.LastAnswer)},
		{"waiting", strconv.Itoa(r.Waiting)},
		{"missed", strconv.Itoa(r.Missed)},
	}
	if r.BrokenSince != nil {
		lines = append(lines, [2]string{"broken since", at(r.BrokenSince)})
	}
	if r.Held != nil {
		lines = append(lines, [2]string{"held since", at(r.Held.Since) + " " + r.Held.Why})
	}
	for _, line := range lines {
		if err := p.printf("%-13s %s", line[0], terminal.Cell(line[1], 2000)); err != nil {
			return err
		}
	}
	return nil
}

// newReceiverRecover returns `receivers recover`: a replay of the failures of a receiver.
func newReceiverRecover(from *settings) *cobra.Command {
	var queue string
	r := new(replay)
	cmd := r.command(from)
	cmd.Use, cmd.Short = "recover RECEIVER", "Send again what a receiver has missed"
	cmd.Long = `Send to a receiver the messages that were given up for it, each once: those that failed in
the period, and were not handled, replayed or discarded since. Messages that still wait need no
recovery. A preview is shown before anything is sent.

It is "replay --to-failed-queue" for the failures of a receiver, with the same flags but those of
other targets.`
	cmd.Example = `  watership receivers recover shop.example.com --since 6h --dry-run
  watership receivers recover shop.example.com --since 6h --rate 10 --yes
  watership receivers recover shop.example.com --route merchant-hooks --from 2026-05-04T03:00 --expect 5000 --yes`
	flag := cmd.Flags().Lookup("to-failed-queue")
	_ = flag.Value.Set("true") // of the type of the flag
	flag.DefValue = "true"
	for _, name := range append(shadowOnly(), "shadow", "follow", "ids", "order", "on-failure", "to-failed-queue", "to-queue", "to-exchange", "key", "group") {
		cmd.Flags().Lookup(name).Hidden = true
	}
	cmd.Flags().StringVar(&queue, "route", "", "only of the route of this queue")
	cmd.Args = exactArgs(1, "the receiver")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		missed := kql.And{kql.FieldIs("event.action", "poisoned"), kql.FieldIs(deliveries.Field, args[0])}
		if queue != "" {
			missed = append(missed, kql.FieldIs("watership.queue", queue))
		}
		return run(cmd, []string{missed.String()})
	}
	return cmd
}

func newReceiverHold(from *settings) *cobra.Command {
	cmd := newHold(from, "hold", deliveries.HoldReceiver.Call, true)
	cmd.Short = "Hold a receiver in every process: send it nothing"
	cmd.Long = `Hold a receiver: requests that are under way end, and no others begin within seconds. Its messages
wait in delay queues, and lose no attempt; the time counts towards breaker.max_wait. The hold stays
over restarts, until it is released. An event has the operator and the reason.`
	cmd.Example = "  watership receivers hold merchant-hooks shop.example.com --reason 'they move to another host'"
	return cmd
}

func newReceiverRelease(from *settings) *cobra.Command {
	cmd := newHold(from, "release", deliveries.ReleaseReceiver.Call, false)
	cmd.Short = "Release a receiver that an operator holds"
	cmd.Long = `Release a receiver: its messages follow as their delays end, within 5 minutes or a tenth of the
time of the hold. "waiting now" sends them at once.`
	cmd.Example = "  watership receivers release merchant-hooks shop.example.com"
	return cmd
}

type changeHold func(ctx context.Context, via operation.Via, in deliveries.HoldInput) (deliveries.HoldOutput, error)

// newHold returns the command that holds or releases a receiver.
func newHold(from *settings, verb string, change changeHold, hold bool) *cobra.Command {
	var a action
	cmd := &cobra.Command{
		Use:  verb + " QUEUE RECEIVER",
		Args: exactArgs(2, "the queue of the route and the receiver"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if hold {
				if err := a.needReason(); err != nil {
					return err
				}
			}
			if err := a.read(from, cmd, ""); err != nil {
				return err
			}
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error {
				in := deliveries.HoldInput{Queue: args[0]}
				in.Body.Receiver, in.Body.Bounds = args[1], operation.Bounds{Reason: a.reason, DryRun: a.dryRun, Expect: a.expect}
				changed, err := change(withOperator(ctx, a.operator), sys, in)
				if err != nil {
					return err
				}
				if _, err := fmt.Fprintln(a.readers(), holdText(changed.Body, verb, a.dryRun)); err != nil {
					return err
				}
				return a.writeJSON(changed.Body)
			})
		},
	}
	a.addExpect(cmd)
	a.addFlags(cmd, map[bool]string{true: "why (required)", false: "why"}[hold])
	return cmd
}

func holdText(changed deliveries.HoldChange, verb string, dryRun bool) string {
	text := "the receiver is " + map[bool]string{true: "held", false: "not held"}[changed.Held]
	switch {
	case changed.Matched == 0:
		text += ": nothing has changed"
	case dryRun:
		text = "1 receiver to " + verb
	}
	if changed.Unknown {
		text += "\nno request to it is recorded: if its name is mistyped, requests to the right one go on (watership receivers lists them)"
	}
	return text
}
