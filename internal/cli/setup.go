package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/kibana"
	"github.com/watershipmq/watership/internal/topology"
	"github.com/watershipmq/watership/pipeline"
)

func newSetup(from *settings) *cobra.Command {
	var access kibanaAccess
	cmd := &cobra.Command{
		Use:   "setup",
		Short: "Declare queues and exchanges, install index templates, import the dashboard",
		Long: `Declare Watership's exchanges and queues, tap the configured exchanges, install the
index templates and, with --kibana, import the saved objects. setup can be repeated:
it leaves existing objects unchanged, and fails with a remedy if one has other
arguments. Saved objects of an earlier import are replaced.

If tap.when_full or tap.limit has changed, setup indexes the messages of the former
index queue and deletes it. Stop every serve with the former configuration first.

setup fails if a policy lets the broker drop messages of Watership's queues, or sets
a delivery limit on a route's queue without a dead-letter exchange. The error has the
command that changes the policy.`,
		Example: "  watership setup --config watership.yaml --kibana http://localhost:5601",
		Args:    exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			to, err := access.open()
			if err != nil {
				return err
			}
			s, err := from.system(streamsOf(cmd))
			if err != nil {
				return err
			}
			return s.setup(cmd.Context(), cmd.OutOrStdout(), to)
		},
	}
	access.addFlags(cmd)
	return cmd
}

func (s system) setup(ctx context.Context, out io.Writer, to *kibana.Client) error {
	err := s.migrate(ctx, func(m topology.Migration) error { return m.CheckUnused(ctx) })
	if err != nil {
		return err
	}
	if err := s.declare(ctx); err != nil {
		return err
	}
	err = s.migrate(ctx, func(m topology.Migration) error { return m.Unbind(ctx) })
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "topology    declared at %s\n", s.cfg.AMQP.URL)
	store, err := s.store(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	if err := store.Install(ctx); err != nil {
		return err
	}
	fmt.Fprintf(out, "templates   installed at %s for %s-*\n", s.cfg.Store.URL, s.cfg.Store.Stream)
	if err := s.drainFormer(ctx, out, store); err != nil {
		return err
	}
	if err := s.deleteFormerDelays(ctx, out); err != nil {
		return err
	}
	if to == nil {
		return s.refuseLimits(ctx)
	}
	imported, err := importInto(ctx, to, s.cfg.Store.Stream)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "kibana      %d saved objects imported at %s\n", imported, to.Address())
	return s.refuseLimits(ctx)
}

func importInto(ctx context.Context, to *kibana.Client, stream string) (imported int, err error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	return to.Import(ctx, stream)
}

func (s system) declare(ctx context.Context) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	if s.away != nil {
		return s.away
	}
	if err := pipeline.Declare(ctx, s.pipeline()); err != nil {
		return fmt.Errorf("declaring the topology at %s: %w", s.cfg.AMQP.URL, err)
	}
	return nil
}
