package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/docs"
	"github.com/watershipmq/watership/internal/config"
)

// Groups of commands in the help, in their order.
const (
	groupStart = "start"
	groupFind  = "find"
	groupAct   = "act"
	groupRun   = "run"
	groupCheck = "check"
)

func groups() []*cobra.Group {
	return []*cobra.Group{
		{ID: groupStart, Title: "Start here:"},
		{ID: groupFind, Title: "Find messages:"},
		{ID: groupAct, Title: "Act:"},
		{ID: groupRun, Title: "Run:"},
		{ID: groupCheck, Title: "Check:"},
	}
}

// addHelp leaves most settings out of the help of commands, and adds the topic that
// has them all, and the topics of the pages. Hidden flags are neither completed nor in the help, so that they are
// hidden no earlier than the help is printed.
func addHelp(root *cobra.Command, from *settings) {
	root.AddCommand(newSettingsTopic())
	pages := addPages(root)
	root.InitDefaultHelpCmd()
	if help, _, err := root.Find([]string{"help"}); err == nil {
		help.Args, help.Example = rejectUnknownTopic(root, pages), "  watership help failed retry\n  watership help settings\n  watership help troubleshooting"
	}
	printHelp := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		from.hideInHelp(cmd)
		printHelp(cmd, args)
		fmt.Fprintln(cmd.OutOrStdout(), "\nEvery setting is also a flag: see \"watership help settings\".")
	})
}

// hideInHelp hides the settings that the help of a command leaves out.
func (s *settings) hideInHelp(cmd *cobra.Command) {
	for _, key := range s.keys {
		s.flags.Lookup(key.Flag()).Hidden = !inHelpOf(cmd, key.Name)
	}
}

// rejectUnknownTopic is rejectUnknownCommand for the arguments of help. It names the pages that have the word.
func rejectUnknownTopic(root *cobra.Command, pages []docs.Page) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		found, rest, err := root.Find(args)
		if err == nil && found.HasSubCommands() {
			err = rejectUnknownCommand(found, rest)
		}
		if err != nil {
			err = usagef("%w; watership help %s lists the other topics", err, pagesTopic)
			if names := pagesWith(pages, strings.Join(args, " ")); len(names) > 0 {
				err = usagef("%w\nthese topics have it: %s", err, strings.Join(names, ", "))
			}
		}
		return err
	}
}

// inHelpOf reports whether the help of a command has the flag of a setting.
func inHelpOf(cmd *cobra.Command, key string) bool {
	command := cmd.Name()
	switch key {
	case "amqp.url", "store.url", "log.level":
		return true
	case "server", "token_file":
		return withoutServer(cmd) == ""
	case "http.auth.tokens_file":
		return slices.Contains([]string{"create", "revoke"}, command)
	case "http.listen":
		return slices.Contains([]string{"dev", "serve", "healthcheck"}, command)
	case "data", "amqp.listen":
		return command == "dev"
	}
	return false
}

const settingsTopic = "settings"

func newSettingsTopic() *cobra.Command {
	topic := &cobra.Command{
		Use:   settingsTopic,
		Short: "Every setting: key, flag, environment variable and default",
	}
	topic.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		fmt.Fprint(cmd.OutOrStdout(), settingsText())
	})
	return topic
}

// settingsText lists every setting as a text of at most 80 columns but for long values.
func settingsText() string {
	var b strings.Builder
	b.WriteString(`A setting is a flag, an environment variable or a key of the configuration file
(--config or ` + config.FileVariable + `). Flags override the environment, and the
environment overrides the file. "watership config show" prints the values in use.
`)
	for _, key := range config.Keys() {
		fmt.Fprintf(&b, "\n%s", key.Name)
		if key.Default != "" {
			fmt.Fprintf(&b, " (default: %s)", key.Default)
		}
		fmt.Fprintf(&b, "\n    %s\n    %s\n", key.Help, waysToSet(key))
	}
	return b.String()
}

// waysToSet names the flag and the variable of a setting.
func waysToSet(key config.Key) string {
	if key.Form == config.Structure {
		return key.Variable() + " as YAML, no flag"
	}
	return "--" + key.Flag() + ", " + key.Variable()
}
