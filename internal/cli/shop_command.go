package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/server"
	"github.com/watershipmq/watership/internal/system"
)

// newExampleShop is for docker-compose.yml. Others who want to see the example run dev, which publishes nothing to their RabbitMQ.
func newExampleShop(from *settings) *cobra.Command {
	d := dev{seed: 1, rate: usualOrders}
	return &cobra.Command{
		Use:    "shop",
		Short:  "Run the example shop of dev on the configured servers, with the configured roles",
		Hidden: true,
		Args:   exactArgs(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			ctx := cmd.Context()
			cfg, err := from.loadOwn()
			if err != nil {
				return err
			}
			d.sys, err = system.Start(ctx, system.Config{Settings: cfg, Name: "shop", Logger: newLogger(streamsOf(cmd), cfg.Log)})
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, d.sys.Close()) }()
			var more server.Config
			if err := d.addShop(ctx, &more); err != nil {
				return err
			}
			s, err := server.New(ctx, d.sys, more)
			if err != nil {
				return err
			}
			return serve(ctx, s, func(ctx context.Context) error {
				if !awaitReady(ctx, s) {
					return nil
				}
				return d.publishOrders(ctx)
			})
		},
	}
}
