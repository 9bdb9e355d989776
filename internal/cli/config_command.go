package cli

import (
	"errors"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/server"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/system/routeconfig"
)

func newConfig(from *settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check or show the configuration",
		Args:  rejectUnknownCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newConfigCheck(from), newConfigShow(from))
	return cmd
}

func newConfigCheck(from *settings) *cobra.Command {
	var noFiles bool
	cmd := &cobra.Command{
		Use:     "check",
		Short:   "Check the configuration and list every mistake",
		Long:    "Check the configuration file, the environment and the flags, and the files that they\nname: what serve refuses at its start is a mistake here as well. No server is\ncontacted: doctor does that.",
		Example: "  watership config check --config watership.yaml\n  watership config check --config watership.yaml --no-files",
		Args:    exactArgs(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := from.load()
			if err != nil {
				return err
			}
			if !noFiles {
				err = checkServer(cfg)
			}
			if err != nil {
				return err
			}
			to := printer{Streams: streamsOf(cmd)}
			for _, warning := range routeconfig.Ineffective(cfg) {
				if err := to.printf("WARNING: %s", warning); err != nil {
					return err
				}
			}
			return to.printf("the configuration is in order")
		},
	}
	cmd.Flags().BoolVar(&noFiles, "no-files", false, "check the settings alone, on a machine without the files that they name")
	return cmd
}

// checkServer returns the mistakes for which serve would not start, before it asks another server.
func checkServer(cfg config.Config) (err error) {
	sys, err := system.New(system.Config{Settings: cfg, Name: "config check", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sys.Close()) }()
	return server.Check(sys)
}

func newConfigShow(from *settings) *cobra.Command {
	var format outputFormat
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show the value and the origin of every setting",
		Long: `Show each setting with its value and its origin: the file and line, environment
variable, flag, default, or the data folder of a watership dev, whose broker and store
all commands except serve use. Passwords are masked.`,
		Example: "  watership config show\n  watership config show -o json",
		Args:    exactArgs(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := from.load()
			if err != nil {
				return err
			}
			if cfg, err = system.WithRunning(cfg); err != nil {
				return err
			}
			to := from.printer(cmd)
			rows := settingRows(cfg.Describe())
			return writeItems(to.Out, format, rows, func() error { return to.settings(rows) })
		},
	}
	format.addFlag(cmd, "table", "json")
	return cmd
}

// settingRow is a setting in the output of `config show`.
type settingRow struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	From  string `json:"from"`
}

func settingRows(settings []config.Setting) []settingRow {
	rows := make([]settingRow, len(settings))
	for i, setting := range settings {
		rows[i] = settingRow{setting.Key, setting.Value, setting.Origin.String()}
	}
	return rows
}

func (p printer) settings(rows []settingRow) error {
	t := terminal.NewTable(p.Out, p.screen, terminal.Column{Title: "SETTING", Fixed: true}, terminal.Column{Title: "VALUE"}, terminal.Column{Title: "FROM"})
	for _, row := range rows {
		if err := t.Row(row.Key, row.Value, row.From); err != nil {
			return err
		}
	}
	return t.Flush()
}
