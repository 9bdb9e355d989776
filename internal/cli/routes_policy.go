package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/routes"
	"github.com/watershipmq/watership/internal/operation"
)

// policyChange holds the arguments of `routes add` and `routes remove`.
type policyChange struct {
	terminal.Streams
	dryRun, yes bool
	question    string
	change      operation.Declared[routes.PolicyInput, routes.PolicyOutput]
}

func newRouteAdd(from *settings) *cobra.Command {
	p := policyChange{question: "Save this policy?", change: routes.AddRoute}
	return p.command(from, &cobra.Command{
		Use:   "add QUEUE",
		Short: "Retry what the consumer of an existing queue rejects",
		Long: `Give the queue of another program Watership's dead-letter exchange by a RabbitMQ policy:
messages that its consumer rejects are retried, with the policy of the route of that queue
or the default one, and poisoned when their attempts are over. The program stays as it is.

RabbitMQ applies one policy to a queue. If one applies already, its keys are repeated in the
new one. A queue whose dead letters go elsewhere is refused. "routes remove" undoes it.
Messages that expire in the queue, or that it drops when it is full, become failures.

The change is shown before anything is changed. A terminal prompts for confirmation; a
script needs --yes. The login of amqp.management_url needs the tag policymaker, and a token
for --server the role admin.`,
		Example: `  watership routes add invoices --dry-run
  watership routes add invoices --yes`,
	})
}

func newRouteRemove(from *settings) *cobra.Command {
	p := policyChange{question: "Delete the policy?", change: routes.RemoveRoute}
	return p.command(from, &cobra.Command{
		Use:   "remove QUEUE",
		Short: "Undo routes add",
		Long: `Delete the policy of "routes add". The policy that applied before applies again. Messages
that wait for their next attempt return to the queue, and are retried no more.`,
		Example: "  watership routes remove invoices --yes",
	})
}

func (p policyChange) command(from *settings, cmd *cobra.Command) *cobra.Command {
	cmd.Args = exactArgs(1, "a queue")
	cmd.ValidArgsFunction = from.completeNames(func(ctx context.Context, sys backend) []string { return sys.Queues(ctx) })
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		p.Streams = streamsOf(cmd)
		if !p.dryRun && !p.yes && !terminal.IsTerminal(p.In) {
			return usagef("routes %s asks first, and there is no terminal to ask: give --yes, or --dry-run to look first", cmd.Name())
		}
		return from.withSystem(cmd, func(ctx context.Context, sys backend) error { return p.run(ctx, sys, args[0]) })
	}
	cmd.Flags().BoolVar(&p.dryRun, "dry-run", false, "show the change without making it")
	cmd.Flags().BoolVarP(&p.yes, "yes", "y", false, "skip the confirmation prompt")
	return cmd
}

func (p policyChange) run(ctx context.Context, sys backend, queue string) error {
	planned, err := p.change.Call(ctx, sys, routes.PolicyInput{Queue: queue, Body: routes.PolicyRequest{DryRun: true}})
	if err != nil {
		return err
	}
	change := planned.Body
	if _, err := io.WriteString(p.Out, terminal.SafeLines(change.Text())+"\n"); err != nil {
		return err
	}
	if p.dryRun || change.IsEmpty() {
		return nil
	}
	if !p.yes {
		switch yes, err := p.Ask(ctx, p.question); {
		case err != nil:
			return err
		case !yes:
			return errors.New("nothing was changed")
		}
	}
	if _, err := p.change.Call(ctx, sys, routes.PolicyInput{Queue: queue, Body: routes.PolicyRequest{Expect: change.Digest}}); err != nil {
		return err
	}
	_, err = fmt.Fprintln(p.Out, "done: RabbitMQ has applied the change to the queue")
	return err
}
