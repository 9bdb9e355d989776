package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/cli/client"
	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/subscriptions"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/render/wording"
)

func newSubscriptions(from *settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "subscriptions",
		Short: "List, show, configure, pause, resume, rewind and delete subscriptions",
		Long: `A subscription is a record in the store with a query, a target and a checkpoint; in
Elasticsearch, in the index STREAM.records. See 'watership subscribe'.`,
		Args: rejectUnknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSubscriptionsList(from), newSubscriptionsShow(from), newSubscriptionsConfigure(from), newSubscriptionsPause(from),
		newSubscriptionsResume(from),
		newSubscriptionsRewind(from),
		newSubscriptionsDelete(from),
		newSubscriptionsParked(from))
	return cmd
}

func newSubscriptionsList(from *settings) *cobra.Command {
	var format outputFormat
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List subscriptions",
		Example: "  watership subscriptions list\n  watership subscriptions list -o json",
		Args:    exactArgs(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error {
				found, err := subscriptions.ListSubscriptions.Call(ctx, sys, struct{}{})
				if err != nil {
					return err
				}
				list := found.Body.Subscriptions
				to := subscriptionPrinter{from.printer(cmd)}
				return writeItems(to.Out, format, list, func() error { return to.subscriptions(list) })
			})
		},
	}
	format.addFlag(cmd, "table", "json", "ndjson")
	return cmd
}

// subscriptionPrinter prints subscriptions.
type subscriptionPrinter struct{ printer }

func (p subscriptionPrinter) subscriptions(list []subscriptions.Subscription) error {
	if len(list) == 0 {
		return p.printf("there are no subscriptions")
	}
	t := terminal.NewTable(p.Out, p.screen,
		terminal.Column{Title: "NAME"}, terminal.Column{Title: "STATE", Fixed: true, Colours: map[string]terminal.Colour{"stopped": terminal.Red, "paused": terminal.Yellow, "active": terminal.Green}},
		terminal.Column{Title: "DELIVERED", Fixed: true, Right: true}, terminal.Column{Title: "PARKED", Fixed: true, Right: true, DropOrder: 2},
		terminal.Column{Title: "LAG", Fixed: true, Right: true}, terminal.Column{Title: "TO", DropOrder: 1}, terminal.Column{Title: "QUERY", DropOrder: 4}, terminal.Column{Title: "PROBLEM", DropOrder: 3})
	for _, v := range list {
		if err := t.Row(v.Name, v.State, strconv.FormatInt(v.Delivered, 10), strconv.FormatInt(v.Parked, 10), lagText(v), v.Target.String(), v.Query, problemText(v)); err != nil {
			return err
		}
	}
	return t.Flush()
}

func lagText(v subscriptions.Subscription) string {
	if v.CaughtUp {
		return "none"
	}
	return wording.Duration((time.Duration(v.LagSeconds) * time.Second))
}

func problemText(v subscriptions.Subscription) string {
	if v.Reason != "" {
		return v.Reason
	}
	if text := waitingText(v); text != "" || v.Parked == 0 {
		return text
	}
	return fmt.Sprintf("%s could not be delivered: see watership subscriptions parked %s", wording.Plural(int(v.Parked), "message"), v.Name)
}

// waitingText returns why nothing is delivered.
func waitingText(v subscriptions.Subscription) string {
	if v.UnattendedSince != nil {
		return v.Waiting.Text("the last sign of one is of " + terminal.Time(*v.UnattendedSince))
	}
	return v.Waiting.Text(v.WaitingError)
}

func newSubscriptionsShow(from *settings) *cobra.Command {
	var format outputFormat
	cmd := &cobra.Command{
		Use:     "show NAME",
		Short:   "Show a subscription with its position and lag",
		Example: "  watership subscriptions show billing",
		Args:    exactArgs(1, "the name of a subscription"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error {
				found, err := subscriptions.GetSubscription.Call(ctx, sys, subscriptions.NameInput{Name: args[0]})
				if err != nil {
					return err
				}
				if format.name == "json" {
					return terminal.WriteIndentedJSON(cmd.OutOrStdout(), found.Body)
				}
				return subscriptionPrinter{from.printer(cmd)}.subscription(found.Body)
			})
		},
	}
	format.addFlag(cmd, "table", "json")
	return cmd
}

func (p subscriptionPrinter) subscription(v subscriptions.Subscription) error {
	line := func(name, text string) string {
		if text == "" {
			return ""
		}
		return fmt.Sprintf("%-11s %s\n", name, terminal.Cell(text, 4000))
	}
	state := v.State
	if v.ChangedBy != "" {
		state += ", changed by " + v.ChangedBy
	}
	lag := lagText(v)
	if v.LagEvents != nil && *v.LagEvents > 0 {
		lag += ", " + wording.Plural(int(*v.LagEvents), "event")
	}
	text := line("name", v.Name) + line("query", v.Query) + line("to", v.Target.String()) + line("state", state) + line("reason", v.Reason) + line("waiting", waitingText(v)) +
		line("position", v.Position) + line("lag", lag) + line("delivered", strconv.FormatInt(v.Delivered, 10)) + line("parked", strconv.FormatInt(v.Parked, 10)) +
		line("on poison", v.OnPoison) + line("upcast", upcastText(v)) + line("calls", callsText(v)) + line("created", terminal.Time(v.Created)+" by "+v.CreatedBy)
	return p.printf("%s", strings.TrimSuffix(text, "\n"))
}

// upcastText is the program that changes former versions of messages, in one line; "": none.
func upcastText(v subscriptions.Subscription) string {
	if v.Upcast == "" {
		return ""
	}
	return fmt.Sprintf("version %d: %s", v.UpcastVersion, strings.TrimSpace(v.Upcast))
}

// callsText says how the events are delivered side by side; "": they are not.
func callsText(v subscriptions.Subscription) string {
	if v.By == "" {
		return ""
	}
	return fmt.Sprintf("by %s, %d at a time", v.By, v.Concurrency)
}

func newSubscriptionsPause(from *settings) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:     "pause NAME",
		Short:   "Pause a subscription",
		Example: "  watership subscriptions pause billing --reason 'the database moves'",
		Args:    exactArgs(1, "the name of a subscription"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(reason) == "" {
				return usagef("--reason is required")
			}
			in := subscriptions.PauseInput{NameInput: subscriptions.NameInput{Name: args[0]}}
			in.Body.Reason = reason
			return changeSubscription(cmd, from, args[0], subscriptions.PauseSubscription, in, "paused")
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why (required)")
	return cmd
}

func newSubscriptionsResume(from *settings) *cobra.Command {
	var skipRemoved bool
	cmd := &cobra.Command{
		Use:   "resume NAME",
		Short: "Resume a subscription that is paused or stopped",
		Long: `Resume a subscription that is paused, or that a poison message has stopped. It continues
after its position. If retention has removed events before they were delivered, it
stops again: --skip-removed continues without them.`,
		Example: "  watership subscriptions resume billing\n  watership subscriptions resume billing --skip-removed",
		Args:    exactArgs(1, "the name of a subscription"),
		RunE: func(cmd *cobra.Command, args []string) error {
			resume := subscriptions.ResumeSubscription
			if skipRemoved {
				resume = subscriptions.SkipRemoved
			}
			return changeSubscription(cmd, from, args[0], resume, subscriptions.ActInput{NameInput: subscriptions.NameInput{Name: args[0]}}, "resumed")
		},
	}
	cmd.Flags().BoolVar(&skipRemoved, "skip-removed", false, "continue without the events that retention has removed")
	return cmd
}

func newSubscriptionsConfigure(from *settings) *cobra.Command {
	var query string
	var to subscriptions.Settings
	var maxBacklog, attempts, concurrency int
	var order, upcast string
	cmd := &cobra.Command{
		Use:   "configure NAME",
		Short: "Change the settings of a subscription",
		Long: `Change the query of a subscription, the program that changes former versions of messages, and what happens when its target does not keep up or
does not take a message. State, position and parked messages stay: a new query finds
events after the position. For another target, create a second subscription from the
position of this one.`,
		Example: "  watership subscriptions configure billing --max-backlog 500\n  watership subscriptions configure billing --query 'destination.name: shop' --on-poison stop\n  watership subscriptions configure billing --upcast v3.jq",
		Args:    exactArgs(1, "the name of a subscription"),
		RunE: func(cmd *cobra.Command, args []string) error {
			changed := cmd.Flags().Changed
			if changed("query") {
				to.Query = &query
			}
			if changed("upcast") {
				if to.Upcast = new(string); upcast != "" {
					program, err := readProgram("--upcast", upcast, cmd.InOrStdin())
					if err != nil {
						return err
					}
					to.Upcast = &program
				}
			}
			if changed("max-backlog") {
				to.MaxBacklog = &maxBacklog
			}
			if changed("attempts") {
				to.Attempts = &attempts
			}
			if changed("by") {
				to.By = &order
			}
			if changed("concurrency") {
				to.Concurrency = &concurrency
			}
			if to == (subscriptions.Settings{}) {
				return usagef("expected --query, --upcast, --on-poison, --max-backlog, --attempts, --by or --concurrency")
			}
			in := subscriptions.ConfigureInput{NameInput: subscriptions.NameInput{Name: args[0]}}
			in.Body.Settings, in.Body.Zone = to, client.ZoneName(time.Local)
			return changeSubscription(cmd, from, args[0], subscriptions.ConfigureSubscription, in, "configured")
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&query, "query", "", "events to deliver; '' for all published messages")
	flags.StringVar(&upcast, "upcast", "", "file with the program that changes former versions of messages; '' for none; - reads standard input")
	flags.StringVar(&to.OnPoison, "on-poison", "", "message that cannot be delivered: park, park-stream (and the later ones of its stream), or stop the subscription")
	flags.StringVar(&order, "by", "", "order of the calls of the URL: stream (each stream in order), or position (one event after another)")
	flags.IntVar(&concurrency, "concurrency", 0, "calls of the URL at a time, by stream; 0: 10")
	flags.IntVar(&maxBacklog, "max-backlog", 0, "messages in the queue at which deliveries wait; 0: no limit")
	flags.IntVar(&attempts, "attempts", 0, "calls of the URL until a message is parked; 0: no limit")
	return cmd
}

func newSubscriptionsDelete(from *settings) *cobra.Command {
	var a action
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a subscription and the list of its parked messages",
		Long: `Delete a subscription. Its position and the list of its parked messages are lost. Messages
that were delivered stay where they are.`,
		Example: `  watership subscriptions delete billing
  watership subscriptions delete billing --reason 'replaced by invoices' --yes`,
		Args: exactArgs(1, "the name of a subscription"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.read(from, cmd, "subscriptions delete"); err != nil {
				return err
			}
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error { return a.deleteSubscription(ctx, sys, args[0]) })
		},
	}
	a.addYes(cmd)
	a.addFlags(cmd, "why")
	return cmd
}

// deletedSubscription is a subscription that is deleted, or would be.
type deletedSubscription struct {
	Name   string `json:"name"`
	Parked int    `json:"parked"` // messages in the list that goes with it
}

// deleteSubscription reads no more of the subscription than its parked messages, so that one whose
// query cannot be read any more can be deleted, too.
func (a *action) deleteSubscription(ctx context.Context, sys operation.Via, name string) error {
	in := subscriptions.DeleteInput{NameInput: subscriptions.NameInput{Name: name}}
	operation.Fill(&in.Body).Reason = a.reason
	v := deletedSubscription{Name: name}
	return a.run(ctx, flow{
		preview: func(ctx context.Context) (found, error) {
			parked, err := subscriptions.ListParked.Call(ctx, sys, in.NameInput)
			v.Parked = len(parked.Body.Parked)
			text := fmt.Sprintf("subscription %s has %s\n", terminal.Cell(name, 100), wording.Plural(v.Parked, "parked message"))
			return found{number: 1, text: text, body: v, question: "Delete subscription " + terminal.Cell(name, 100) + "?"}, err
		},
		change: func(ctx context.Context) (string, any, error) {
			if _, err := subscriptions.DeleteSubscription.Call(ctx, sys, in); err != nil {
				return "", nil, err
			}
			return "subscription " + terminal.Cell(name, 100) + " is deleted\n", v, nil
		},
	})
}

func newSubscriptionsRewind(from *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "rewind NAME start|now|POSITION|TIME",
		Short: "Continue a subscription at another position",
		Long: `Continue a subscription at another position, before or after its own. Repeated
deliveries have the positions of the first ones. A position as 'watership
subscriptions show' prints it continues with the next event.`,
		Example: "  watership subscriptions rewind billing start\n  watership subscriptions rewind billing now-1h",
		Args:    exactArgs(2, "the name of a subscription, and a position"),
		RunE: func(cmd *cobra.Command, args []string) error {
			to, err := absolutePlace(args[1])
			if err != nil {
				return err
			}
			in := subscriptions.RewindInput{NameInput: subscriptions.NameInput{Name: args[0]}}
			in.Body.To = to
			return changeSubscription(cmd, from, args[0], subscriptions.RewindSubscription, in, "rewound")
		},
	}
}

func changeSubscription[I, O any](cmd *cobra.Command, from *settings, name string, change operation.Declared[I, O], in I, done string) error {
	return from.withSystem(cmd, func(ctx context.Context, sys backend) error {
		if _, err := change.Call(ctx, sys, in); err != nil {
			return err
		}
		return from.printer(cmd).printf("subscription %s is %s", terminal.Cell(name, 100), done)
	})
}
