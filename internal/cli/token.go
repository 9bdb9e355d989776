package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operation/access"
)

func newToken(from *settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Create, list and revoke tokens for the HTTP server",
		Long: `Programs and people send a token to the HTTP server as "Authorization: Bearer TOKEN".
Tokens are in the file http.auth.tokens_file, without their secrets. A running server
reads the file again when it changes.`,
		Args: rejectUnknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTokenCreate(from), newTokenList(from), newTokenRevoke(from))
	return cmd
}

// tokens returns the file of tokens.
func (s *settings) tokens() (*access.TokenFile, error) {
	cfg, err := s.load()
	if err != nil {
		return nil, err
	}
	if cfg.HTTP.Auth.TokensFile == "" {
		return nil, usagef("http.auth.tokens_file is not set: set it to the path of a file, for this command and for serve")
	}
	return access.OpenTokenFile(cfg.HTTP.Auth.TokensFile), nil
}

func newTokenCreate(from *settings) *cobra.Command {
	var role string
	var lifetime time.Duration
	var token access.Token
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a token and print it, once",
		Long: `Create a token and print it. It is not kept: only this command prints it.

Each role includes the lower ones:
  viewer    searches and shows messages, without their bodies
  operator  replays, discards and pauses, too
  admin     changes what concerns all queues, too`,
		Example: `  watership token create grafana --role viewer --expires 365d
  watership token create ada --role operator --bodies --queues 'orders*,invoices' --exchanges shop`,
		Args: exactArgs(1, "the name of the token"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if token.Role, err = access.ParseRole(role); err != nil {
				return usagef("--role: %w", err)
			}
			if token.BodyReasons && !token.Bodies {
				return usagef("--body-reasons needs --bodies")
			}
			token.Name, token.Created = args[0], time.Now().UTC().Truncate(time.Second)
			if lifetime > 0 {
				token.Expires = token.Created.Add(lifetime)
			}
			file, err := from.tokens()
			if err != nil {
				return err
			}
			secret, err := file.Create(token)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), secret)
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&role, "role", "", "viewer, operator or admin (required)")
	addDuration(flags, &lifetime, "expires", 90*24*time.Hour, "lifetime of the token, such as 12h; 0: for ever")
	flags.StringSliceVar(&token.Queues, "queues", nil, "queues that the token is limited to, with * for any text")
	flags.StringSliceVar(&token.Exchanges, "exchanges", nil, "exchanges that the token is limited to, with * for any text")
	flags.BoolVar(&token.Bodies, "bodies", false, "permit to read and to search the bodies of messages")
	flags.BoolVar(&token.BodyReasons, "body-reasons", false, "with --bodies: for a reason alone, which is recorded")
	flags.BoolVar(&token.Originals, "originals", false, "permit to read the originals of redacted messages, for a reason, which is recorded; their bodies need --bodies, too")
	return cmd
}

func newTokenList(from *settings) *cobra.Command {
	var format outputFormat
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List tokens, without their secrets",
		Example: "  watership token list",
		Args:    exactArgs(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			file, err := from.tokens()
			if err != nil {
				return err
			}
			tokens, err := file.List()
			if err != nil {
				return err
			}
			to := from.printer(cmd)
			return writeItems(to.Out, format, tokens, func() error { return to.tokens(tokens, time.Now()) })
		},
	}
	format.addFlag(cmd, "table", "json", "ndjson")
	return cmd
}

func (p printer) tokens(tokens []access.Token, now time.Time) error {
	if len(tokens) == 0 {
		return p.printf("there are no tokens")
	}
	t := terminal.NewTable(p.Out, p.screen,
		terminal.Column{Title: "NAME"}, terminal.Column{Title: "ROLE", Fixed: true}, terminal.Column{Title: "BODIES", Fixed: true}, terminal.Column{Title: "ORIGINALS", Fixed: true},
		terminal.Column{Title: "EXPIRES", Fixed: true, Colours: map[string]terminal.Colour{"expired": terminal.Red}},
		terminal.Column{Title: "CREATED", Fixed: true, Times: true, DropOrder: 1}, terminal.Column{Title: "QUEUES"}, terminal.Column{Title: "EXCHANGES"})
	for _, token := range tokens {
		bodies := yesNo(token.Bodies)
		if token.BodyReasons {
			bodies = "with reasons"
		}
		err := t.Row(token.Name, token.Role.String(), bodies, yesNo(token.Originals), expiryText(token, now), terminal.TimeCell(token.Created),
			limitText(token, token.Queues), limitText(token, token.Exchanges))
		if err != nil {
			return err
		}
	}
	return t.Flush()
}

func yesNo(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

func expiryText(token access.Token, now time.Time) string {
	switch {
	case token.Expires.IsZero():
		return "never"
	case token.Expired(now):
		return "expired"
	}
	return terminal.TimeCell(token.Expires)
}

// limitText lists patterns. A token with limits on queues alone may use no exchange.
func limitText(token access.Token, patterns []string) string {
	switch {
	case len(patterns) > 0:
		return strings.Join(patterns, ", ")
	case len(token.Queues)+len(token.Exchanges) > 0:
		return "none"
	}
	return "all"
}

func newTokenRevoke(from *settings) *cobra.Command {
	return &cobra.Command{
		Use:     "revoke NAME",
		Short:   "Revoke a token, at once",
		Example: "  watership token revoke grafana",
		Args:    exactArgs(1, "the name of a token"),
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := from.tokens()
			if err != nil {
				return err
			}
			return file.Revoke(args[0])
		},
	}
}
