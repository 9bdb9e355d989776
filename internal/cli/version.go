package cli

import (
	"context"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/cli/client"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/schemas"
)

func newVersion(from *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of the program and its formats",
		Long: `Print the version of the program, the commit that it was built from, and the versions of its formats. With --server, print the server's
version, too, and the name and the role of the token.`,
		Args: exactArgs(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			built := ""
			if commit, time := system.Commit(); commit != "" {
				built = fmt.Sprintf("commit %s of %s\n", commit, time)
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "watership %s (%s %s/%s)\n%sheaders %d, documents %d, templates %d\n",
				system.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH, built,
				header.Version, schemas.DocumentVersion, eventstore.TemplateVersion)
			if err != nil || !from.hasServer() {
				return err
			}
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error {
				server, is := sys.(*client.Client)
				if !is {
					return nil
				}
				version, err := server.Version(ctx)
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "server %s at %s, used as %s with the role %s\n", version.Version, server.Address(), version.Caller.Name, version.Caller.Role)
				return err
			})
		},
	}
}
