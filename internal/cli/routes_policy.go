package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/routes"
	"github.com/watershipmq/watership/internal/operation"
)

// policyChange holds the arguments of `routes add` and `routes remove`.
type policyChange struct {
	action
	digest   string // of the change; "": any
	question string
	change   operation.Declared[routes.PolicyInput, routes.PolicyOutput]
}

func newRouteAdd(from *settings) *cobra.Command {
	p := &policyChange{question: "Save this policy?", change: routes.AddRoute}
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
for --server the role admin. An audited event has the operator and the reason.`,
		Example: `  watership routes add invoices --dry-run
  watership routes add invoices --yes`,
	})
}

func newRouteRemove(from *settings) *cobra.Command {
	p := &policyChange{question: "Delete the policy?", change: routes.RemoveRoute}
	return p.command(from, &cobra.Command{
		Use:   "remove QUEUE",
		Short: "Undo routes add",
		Long: `Delete the policy of "routes add". The policy that applied before applies again. Messages
that wait for their next attempt return to the queue, and are retried no more.`,
		Example: "  watership routes remove invoices --yes",
	})
}

func (p *policyChange) command(from *settings, cmd *cobra.Command) *cobra.Command {
	cmd.Args = exactArgs(1, "a queue")
	cmd.ValidArgsFunction = from.completeNames(queues)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := p.read(from, cmd, "routes "+cmd.Name()); err != nil {
			return err
		}
		return from.withSystem(cmd, func(ctx context.Context, sys backend) error { return p.run(ctx, p.flow(sys, args[0])) })
	}
	addNonEmpty(cmd.Flags(), &p.digest, "digest", "stop unless the change has this digest, as -o json prints it")
	p.addGuard(cmd)
	p.addFlags(cmd, "why")
	return cmd
}

func (p *policyChange) flow(sys operation.Via, queue string) flow {
	in := routes.PolicyInput{Queue: queue, Body: routes.PolicyRequest{Bounds: operation.Bounds{Reason: p.reason}}}
	return flow{
		preview: func(ctx context.Context) (found, error) {
			in.Body.DryRun = true
			planned, err := p.change.Call(ctx, sys, in)
			if err != nil {
				return found{}, err
			}
			change := planned.Body
			in.Body.DryRun, in.Body.Expect, in.Body.Digest = false, &change.Matched, change.Digest
			first := found{change.Matched, terminal.SafeLines(change.Text()) + "\n", change, p.check(change.Matched, "queue", ""), p.question}
			if p.digest != "" && p.digest != change.Digest {
				first.refused = fmt.Errorf("the change has the digest %s, and %s was expected: nothing was changed", change.Digest, p.digest)
			}
			return first, nil
		},
		change: func(ctx context.Context) (string, any, error) {
			done, err := p.change.Call(ctx, sys, in)
			if err != nil {
				return "", nil, err
			}
			return "done: RabbitMQ has applied the change to the queue\n", done.Body, nil
		},
	}
}
