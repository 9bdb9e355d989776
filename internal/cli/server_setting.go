package cli

import (
	"cmp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/config"
)

// hasServer reports whether commands go through a server, or whether the
// configuration of one has a mistake to report.
func (s *settings) hasServer() bool {
	cfg, err := s.load()
	if err != nil {
		return s.flags.Changed("server")
	}
	return !cfg.Server.URL.IsZero()
}

// withoutServer returns the reason why a command cannot go through the API of a server;
// "" if it can, or sends no request.
func withoutServer(cmd *cobra.Command) string {
	for cmd.HasParent() && cmd.Parent().HasParent() {
		cmd = cmd.Parent()
	}
	switch cmd.Name() {
	case "dev", "serve":
		return "it runs a server itself"
	case "setup", "import":
		return "it changes RabbitMQ and the store themselves: run it where they are configured (amqp.url, store.url)"
	case "token":
		return "it changes the tokens of the server: run it where the file http.auth.tokens_file is"
	case "healthcheck":
		return "it asks the process on this machine: for another one, read /readyz there"
	case "config":
		return "it is about the configuration of this machine"
	}
	return ""
}

// refuseServer returns an error if a command has a setting that it could only ignore: its
// user would believe that it acts there.
func (s *settings) refuseServer(cmd *cobra.Command) error {
	why := withoutServer(cmd)
	if why == "" {
		return s.refuseOwnServers()
	}
	if s.flags.Changed("server") {
		return usagef("%s cannot go through --server: %s", nameOf(cmd), why)
	}
	if strings.HasPrefix(why, "it is about") {
		return nil // config shows and checks the setting
	}
	cfg, err := s.load()
	if err != nil || cfg.Server.URL.IsZero() {
		return nil // the command reports the mistakes
	}
	return usagef("%s cannot go through a server, and %s sets one: %s", nameOf(cmd), originOf(cfg, "server"), why)
}

// refuseOwnServers returns an error if flags name a RabbitMQ or a store in addition to the server
// that commands go through: the user would believe that the command uses them.
func (s *settings) refuseOwnServers() error {
	for _, flag := range []string{"amqp-url", "store-url", "data"} {
		if s.flags.Changed(flag) && s.hasServer() {
			return usagef("--%s and --server cannot be combined: commands go through the server (WATERSHIP_SERVER and the configuration set it, too)", flag)
		}
	}
	return nil
}

// nameOf returns the name of a command without the program's.
func nameOf(cmd *cobra.Command) string {
	_, name, _ := strings.Cut(cmd.CommandPath(), " ")
	return name
}

func originOf(cfg config.Config, key string) string {
	for _, setting := range cfg.Describe() {
		if setting.Key == key {
			return cmp.Or(setting.Origin.String(), key)
		}
	}
	return key
}
