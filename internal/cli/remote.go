package cli

import (
	"cmp"
	"context"
	"crypto/tls"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/cli/client"
	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/operate/doctor"
	"github.com/watershipmq/watership/internal/rabbit/tlsfiles"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/system/secret"
)

// connect connects to the server of the configuration. It reads the token from its file,
// so that it is in no list of processes.
func connect(ctx context.Context, cmd *cobra.Command, cfg config.Server) (*client.Client, error) {
	token, err := secret.Text("token_file", cfg.TokenFile)
	if err != nil {
		return nil, system.InputError{Err: err}
	}
	if doctor.ReadByAll(cfg.TokenFile) {
		streamsOf(cmd).Warn("token_file: every user of this machine may read %s: chmod 600 %[1]s", cfg.TokenFile)
	}
	var trust *tls.Config
	if cfg.CA != "" {
		if trust, err = tlsfiles.Load(tlsfiles.File{Setting: "server_ca", Path: cfg.CA}, tlsfiles.File{}, tlsfiles.File{}); err != nil {
			return nil, system.InputError{Err: err}
		}
	}
	to := client.Config{URL: cfg.URL.Reveal(), Token: token, TLS: trust, Cleartext: cfg.Cleartext, Reason: cmp.Or(reasonOf(cmd), cfg.Reason)}
	if streams := streamsOf(cmd); terminal.IsTerminal(streams.In) {
		to.Ask = func(ctx context.Context) (string, error) {
			return streams.AskText(ctx, "The token reads bodies for a reason, which is recorded. Reason:")
		}
	}
	return client.Connect(ctx, to)
}

// reasonOf returns the reason that a command was given; "" if it has none.
func reasonOf(cmd *cobra.Command) string {
	if flag := cmd.Flags().Lookup("reason"); flag != nil {
		return flag.Value.String()
	}
	return ""
}
