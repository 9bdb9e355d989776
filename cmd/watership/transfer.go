package main

import (
	"bufio"
	"context"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/schemas"
)

func newExport(from *settings) *cobra.Command {
	var selected selected
	var limit int
	cmd := &cobra.Command{
		Use:   "export QUERY",
		Short: "Write the events that a query finds, whole, as one JSON document a line",
		Long: `export writes every event in the order in which it was recorded, with all that
is needed to publish its message again unchanged: exchange, routing key, every
property, typed headers and the bytes of the body. import reads it into another
store; publish --ndjson publishes the messages.`,
		Example: `  watership export 'action: published and headers.tenant: acme' --since 1d > acme.ndjson
  watership export '*' | gzip > all.ndjson.gz`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := wanted(args, "exports")
			if err != nil {
				return err
			}
			s, err := from.system(terminalOf(cmd))
			if err != nil {
				return err
			}
			sel, err := selected.selection(s, text, cmd.InOrStdin())
			if err != nil {
				return err
			}
			sel.Order, sel.Limit = schemas.BySequence, limit
			return s.export(cmd.Context(), terminalOf(cmd), sel)
		},
	}
	selected.addFlags(cmd)
	cmd.Flags().IntVarP(&limit, "limit", "n", 0, "most events to write; 0 writes all")
	return cmd
}

// export ends with what is stored when it begins.
func (s system) export(ctx context.Context, t terminal, sel schemas.Selection) error {
	store, err := s.store(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	if sel.UpTo, err = store.HighestSequence(ctx); err != nil {
		return err
	}
	_, err = list{terminal: t}.write(lineWriter{bufio.NewWriter(t.out), document}, store.Events(ctx, sel))
	return err
}
