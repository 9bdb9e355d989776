package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/app"
	"github.com/watershipmq/watership/schemas"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of the program and its formats",
		Args:  exactArgs(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "watership %s (%s %s/%s)\nheaders %d, documents %d, templates %d\n",
				app.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH,
				schemas.WireVersion, schemas.DocumentVersion, eventstore.TemplateVersion)
			return err
		},
	}
}
