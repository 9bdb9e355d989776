package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/schemas"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of the program and its formats",
		Args:  exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "watership %s (%s %s/%s)\nheaders %d, documents %d, templates %d\n",
				version(), runtime.Version(), runtime.GOOS, runtime.GOARCH,
				schemas.WireVersion, schemas.DocumentVersion, eventstore.TemplateVersion)
			return err
		},
	}
}

// version returns the version that the Go toolchain recorded at build time.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
