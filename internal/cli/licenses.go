package cli

import (
	_ "embed"
	"io"

	"github.com/spf13/cobra"
)

// licenses is NOTICE with the license texts of all linked modules. TestLicenses writes it.
//
//go:embed licenses.txt
var licenses string

func newLicenses(*settings) *cobra.Command {
	return &cobra.Command{
		Use:   "licenses",
		Short: "Print the licenses of the program and of its libraries",
		Args:  exactArgs(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), licenses)
			return err
		},
	}
}
