package cli

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/system/runfile"
)

// settings holds the sources of a command's configuration.
type settings struct {
	flags   *pflag.FlagSet
	keys    []config.Key
	file    string
	environ []string
}

// addSettings makes a flag of every setting that fits on a command line.
func addSettings(flags *pflag.FlagSet, environ []string) *settings {
	s := &settings{flags: flags, environ: environ}
	flags.StringVarP(&s.file, "config", "c", "", "configuration file (YAML); WATERSHIP_CONFIG names one too")
	for _, key := range config.Keys() {
		if key.Form == config.Structure {
			continue
		}
		s.keys = append(s.keys, key)
		flags.String(key.Flag(), "", key.Help)
	}
	return s
}

// load reads the configuration; its error lists every mistake. Without its own file, it
// reads the one of the process that runs on the data folder.
func (s *settings) load() (config.Config, error) { return s.loadOver(nil) }

// loadOver is load with other defaults, by key.
func (s *settings) loadOver(defaults map[string]string) (config.Config, error) {
	sources := s.sources(defaults)
	cfg, err := config.Load(sources)
	if err != nil || cfg.File() != "" || cfg.NamesServers() || !cfg.Server.URL.IsZero() {
		return cfg, err
	}
	process, err := runfile.Read(cfg.Data)
	if err != nil || process.Config == "" { // a System reports the error
		return cfg, nil
	}
	return config.Load(sourcesOf(process, sources))
}

// sourcesOf returns the sources with the configuration file of a process, without the keys
// that its run file replaces: flags of the process may have replaced them, too.
func sourcesOf(process runfile.Running, sources config.Sources) config.Sources {
	defaults := map[string]string{"amqp.url": config.Embedded}
	maps.Copy(defaults, sources.Default)
	sources.File, sources.Default, sources.Omit = process.Config, defaults, []string{"data", "amqp.url", "amqp.management_url"}
	if process.Store != "" {
		sources.Omit = append(sources.Omit, "store.url")
	}
	return sources
}

// loadOwn is load for serve, which runs a server, and so has only its own configuration.
func (s *settings) loadOwn() (config.Config, error) {
	sources := s.sources(nil)
	sources.Serve = true
	return config.Load(sources)
}

// sources returns the sources with other defaults, by key.
func (s *settings) sources(defaults map[string]string) config.Sources {
	given := map[string]string{}
	for _, key := range s.keys {
		if flag := s.flags.Lookup(key.Flag()); flag.Changed {
			given[key.Name] = flag.Value.String()
		}
	}
	return config.Sources{File: s.file, Environ: s.environ, Flags: given, Default: defaults}
}

// open makes the System of a command that uses running servers. The command prints its
// result itself: unless log.level is set, only warnings are logged.
func (s *settings) open(cmd *cobra.Command) (*system.System, error) {
	cfg, err := s.loadOver(map[string]string{"log.level": "warn"})
	if err != nil {
		return nil, err
	}
	return system.New(system.Config{Settings: cfg, Name: cmd.Name(), Logger: newLogger(streamsOf(cmd), cfg.Log), Programs: programsOf(cmd.Context())})
}

// openSystem is open for a command that the API of a server can serve.
func (s *settings) openSystem(ctx context.Context, cmd *cobra.Command) (backend, error) {
	cfg, err := s.loadOver(map[string]string{"log.level": "warn"})
	if err != nil {
		return nil, err
	}
	if !cfg.Server.URL.IsZero() {
		return connect(ctx, cmd, cfg.Server)
	}
	a, err := s.open(cmd)
	if err != nil {
		return nil, err
	}
	return newLocal(a, reasonOf(cmd)), nil
}

// withSystem calls do with the system of a command, and closes it.
func (s *settings) withSystem(cmd *cobra.Command, do func(ctx context.Context, sys backend) error) (err error) {
	sys, err := s.openSystem(cmd.Context(), cmd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sys.Close()) }()
	return do(cmd.Context(), sys)
}

// with calls do with the System of a command, and closes the System.
func (s *settings) with(cmd *cobra.Command, do func(ctx context.Context, a *system.System) error) (err error) {
	a, err := s.open(cmd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	return do(cmd.Context(), a)
}

// streamsOf returns the streams that a command reads and writes.
func streamsOf(cmd *cobra.Command) terminal.Streams {
	return terminal.Streams{In: cmd.InOrStdin(), Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr()}
}

// screen returns the width and the colours of the command's output.
func (s *settings) screen(out io.Writer) terminal.Screen { return terminal.NewScreen(out, s.environ) }

// printer returns a printer to the streams of a command.
func (s *settings) printer(cmd *cobra.Command) printer {
	return printer{streamsOf(cmd), s.screen(cmd.OutOrStdout())}
}

// newLogger returns a logger that writes to the command's standard error.
func newLogger(t terminal.Streams, cfg config.Log) *slog.Logger {
	options := &slog.HandlerOptions{Level: cfg.Level}
	if cfg.Format == "json" {
		return slog.New(slog.NewJSONHandler(terminal.SafeWriter{Out: t.Err}, options))
	}
	return slog.New(slog.NewTextHandler(t.Err, options))
}
