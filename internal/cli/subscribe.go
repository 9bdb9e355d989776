package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/cli/client"
	"github.com/watershipmq/watership/internal/operate/subscriptions"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/subscription"
)

func newSubscribe(from *settings) *cobra.Command {
	var r subscriptions.Request
	var maxBacklog, attempts int
	var upcast string
	cmd := &cobra.Command{
		Use:   "subscribe NAME [QUERY]",
		Short: "Deliver history and then each new event to a queue or a URL",
		Long: `Create a subscription: the events that match a query, first the stored ones in order,
then each new one, go to a queue or a URL, each at least once. watership serve
delivers them, and goes on at the checkpoint after a crash. Without action in the
query it is the published messages.

A message has its original properties, headers and body, and the headers
watership-subscription and watership-subscription-position, by which a repeated
delivery is recognised.

While the queue is full or missing, or the URL is unavailable, deliveries wait. A
message that cannot be delivered is parked, and the rest goes on; with --on-poison
park-stream the later messages of its stream wait behind it.

With --upcast a program in the language of jq changes former versions of messages on
their way, as --transform of 'watership replay' does: a message for which it fails
cannot be delivered. 'watership validate' tries it on recorded messages.

A URL gets one event after another. With --by stream it gets the events of several
streams side by side (see 'watership stream'), those of each stream in order.`,
		Example: `  watership subscribe billing 'destination.name: shop' --from start --to-queue billing.events
  watership subscribe mails 'action: poisoned' --from now --to-url https://mails.example.com/hooks
  watership subscribe search '' --to-url https://search.example.com/hooks --by stream --concurrency 20 --on-poison park-stream
  watership subscribe invoices 'destination.name: shop' --to-queue invoices --upcast v2.jq
  watership subscribe audit '' --from 2026-05-04T03:00:00Z --to-queue audit --on-poison stop`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return usagef("expected a name and a query, got %s (see '%s --help')", wording.Plural(len(args), "argument"), cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if r.Name = args[0]; len(args) > 1 {
				r.Query = args[1]
			}
			if (r.Queue == "") == (r.URL == "") {
				return usagef("expected --to-queue or --to-url")
			}
			if cmd.Flags().Changed("max-backlog") {
				r.MaxBacklog = &maxBacklog
			}
			if cmd.Flags().Changed("attempts") {
				r.Attempts = &attempts
			}
			if upcast != "" {
				if r.Upcast, err = readProgram("--upcast", upcast, cmd.InOrStdin()); err != nil {
					return err
				}
			}
			if r.From, err = absolutePlace(r.From); err != nil {
				return err
			}
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error {
				created, err := subscriptions.CreateSubscription.Call(ctx, sys, subscriptions.CreateInput{Body: subscriptions.NewSubscription{Request: r, Zone: client.ZoneName(time.Local)}})
				if err != nil {
					return err
				}
				view := created.Body
				return from.printer(cmd).printf("subscription %s delivers to %s while watership serve runs", view.Name, view.Target)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&r.From, "from", "start", "first event: start, now, a position, or a time such as 2026-05-04T03:00:00Z or now-1h")
	flags.StringVar(&r.Queue, "to-queue", "", "queue to deliver to")
	flags.StringVar(&r.URL, "to-url", "", "URL to post to")
	addNonEmpty(flags, &upcast, "upcast", "file with a program in the language of jq that changes former versions of messages; - reads standard input")
	flags.StringVar(&r.OnPoison, "on-poison", "park", "message that cannot be delivered: park, park-stream (and the later ones of its stream), or stop the subscription")
	flags.StringVar(&r.By, "by", "", "order of the calls of the URL: stream (each stream in order), or position (one event after another, the default)")
	flags.IntVar(&r.Concurrency, "concurrency", 0, "calls of the URL at a time, with --by stream; 0: 10")
	flags.IntVar(&maxBacklog, "max-backlog", subscription.DefaultMaxBacklog, "messages in the queue at which deliveries wait; 0: no limit")
	flags.IntVar(&attempts, "attempts", subscriptions.DefaultAttempts, "calls of the URL until a message is parked; 0: no limit")
	return cmd
}

// absolutePlace returns a place in the history that a server in another time zone reads alike.
func absolutePlace(text string) (string, error) {
	from, err := subscription.ParseFrom(text, time.Now())
	if err != nil {
		return "", system.InputError{Err: err}
	}
	if !from.Time.IsZero() {
		return from.Time.UTC().Format(time.RFC3339Nano), nil
	}
	return text, nil
}
