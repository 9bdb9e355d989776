package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/eventstore"
)

func newTail(from *settings) *cobra.Command {
	var lines int
	var fields []string
	var format output
	cmd := &cobra.Command{
		Use:   "tail [QUERY]",
		Short: "Follow new events as they are stored, until Ctrl-C",
		Long: `tail prints every event that a query finds from now on, once, soon after it can
be found: what was taken from the queues at the same time comes in order, what
the store shows late comes late.`,
		Example: `  watership tail 'action: poisoned'
  watership tail -n 20 'headers.tenant: acme' -o ndjson`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := from.system(streamsOf(cmd))
			if err != nil {
				return err
			}
			if lines < 0 {
				return usagef("--lines %d: expected 0 or more", lines)
			}
			node, err := s.parseQuery(strings.Join(args, " "))
			if err != nil {
				return err
			}
			columns := usualFields()
			if len(fields) > 0 {
				if columns, err = s.fieldsNamed(fields); err != nil {
					return err
				}
			}
			store, err := s.store(cmd.Context())
			if err != nil {
				return err
			}
			defer store.Close()
			to := list{streamsOf(cmd), from.screen(cmd.OutOrStdout())}
			f := newFollower(store, eventstore.Selection{Query: node, Order: eventstore.BySequence}, to, s.writer(to, format, columns, len(fields) > 0))
			f.selected.WithoutBody = format.is("table") && !needsBody(columns)
			return f.run(cmd.Context(), lines)
		},
	}
	cmd.Flags().IntVarP(&lines, "lines", "n", 0, "the newest events there are to begin with")
	cmd.Flags().StringSliceVar(&fields, "fields", nil, "columns: fields of the document")
	format.addFlag(cmd, "table", "ndjson")
	return cmd
}
