package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/system"
)

// newMan writes the pages that packages contain.
func newMan(from *settings) *cobra.Command {
	return &cobra.Command{
		Use:     "man FOLDER",
		Short:   "Write a manual page of each command to a folder",
		Example: "  watership man man1",
		Hidden:  true,
		Args:    exactArgs(1, "a folder"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil { //nolint:gosec // as its pages
				return err
			}
			return writeManual(cmd.Root(), from, args[0])
		},
	}
}

func writeManual(cmd *cobra.Command, from *settings, folder string) error {
	if cmd.Hidden {
		return nil
	}
	path := filepath.Join(folder, manualName(cmd)+".1")
	if err := os.WriteFile(path, []byte(manualPage(cmd, from)), 0o644); err != nil { //nolint:gosec // a page is for everybody
		return err
	}
	for _, child := range cmd.Commands() {
		if err := writeManual(child, from, folder); err != nil {
			return err
		}
	}
	return nil
}

func manualName(cmd *cobra.Command) string {
	return strings.ReplaceAll(cmd.CommandPath(), " ", "-")
}

// manualPage is the help of a command in the language of man(7). Its texts are wrapped already.
func manualPage(cmd *cobra.Command, from *settings) string {
	from.hideInHelp(cmd)
	description := cmd.Long
	if description == "" {
		description = cmd.Short + "."
	}
	if cmd.Name() == settingsTopic {
		description = settingsText()
	}
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"watership %s\" \"Watership\"\n", roff(strings.ToUpper(manualName(cmd))), roff(system.Version()))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(manualName(cmd)), roff(cmd.Short))
	if cmd.Runnable() {
		fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roff(cmd.UseLine()))
	}
	fmt.Fprintf(&b, ".SH DESCRIPTION\n.nf\n%s\n.fi\n", roff(strings.TrimSpace(description)))
	if !cmd.IsAdditionalHelpTopicCommand() {
		fmt.Fprintf(&b, ".SH OPTIONS\n.nf\n%s.fi\n", roff(cmd.NonInheritedFlags().FlagUsages()+cmd.InheritedFlags().FlagUsages()))
	}
	if cmd.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roff(cmd.Example))
	}
	b.WriteString(".SH SEE ALSO\n")
	if cmd.HasParent() {
		fmt.Fprintf(&b, ".BR %s (1)\n", roff(manualName(cmd.Parent())))
	}
	for _, child := range cmd.Commands() {
		if !child.Hidden {
			fmt.Fprintf(&b, ".BR %s (1)\n", roff(manualName(child)))
		}
	}
	return b.String()
}

// roff escapes a text. A line that begins with a point or an apostrophe would be a request.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	return strings.NewReplacer("\n.", "\n\\&.", "\n'", "\n\\&'").Replace("\n" + text)[1:]
}
