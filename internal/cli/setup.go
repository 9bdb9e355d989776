package cli

import (
	"context"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/server"
	"github.com/watershipmq/watership/internal/server/kibana"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/system/secret"
)

func newSetup(from *settings) *cobra.Command {
	var access kibanaFlags
	var request server.Setup
	cmd := &cobra.Command{
		Use:   "setup",
		Short: "Declare queues and exchanges, install index templates, import the dashboard",
		Long: `Declare Watership's exchanges and queues, tap the configured exchanges, install the
index templates and, with --kibana, import the saved objects. setup can be repeated:
it leaves existing objects unchanged, and fails with a remedy if one has other
arguments. Saved objects of an earlier import are replaced.

If tap.when_full, tap.limit, tap.queue_type, index.partitions or index.partition_key has
changed, setup indexes the messages of the former index queues and deletes them. Stop
every serve with the former configuration first.

setup lists what a former configuration has left: exchanges that are still tapped,
topologies of other prefixes, queues that nothing uses. --untap ends the recording of
an exchange that was taken out of tap.exchanges. --retire moves what waits in the
queues of a former topology.prefix to the present ones, records its events, and
removes it. Stop every process with that prefix first.

setup fails if a policy lets the broker drop messages of queues of Watership or, without
a dead-letter exchange, of routes, or sends what Watership drops on purpose to its
dead-letter exchange. The error has the command that changes the policy.`,
		Example: "  watership setup --config watership.yaml --kibana http://localhost:5601",
		Args:    exactArgs(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if request.Kibana, err = access.open(); err != nil {
				return err
			}
			return from.with(cmd, func(ctx context.Context, a *system.System) error {
				return request.Run(ctx, a, func(subject, text string) {
					fmt.Fprintf(cmd.OutOrStdout(), "%-11s %s\n", subject, text)
				})
			})
		},
	}
	access.addFlags(cmd)
	cmd.Flags().Var(nonEmpties{&request.Untap}, "untap", "exchange that is no longer in tap.exchanges, to end its recording; repeatable")
	addNonEmpty(cmd.Flags(), &request.Retire, "retire", "former topology.prefix, to move its messages to the present one and remove it")
	return cmd
}

// kibanaFlags holds the address and the login of Kibana.
type kibanaFlags struct {
	url, user, passwordFile, ca string
}

func (a *kibanaFlags) addFlags(cmd *cobra.Command) {
	addNonEmpty(cmd.Flags(), &a.url, "kibana", "URL of Kibana, to import or update the data view, searches and dashboard")
	addNonEmpty(cmd.Flags(), &a.user, "kibana-user", "user of Kibana")
	addNonEmpty(cmd.Flags(), &a.passwordFile, "kibana-password-file", "file with the password of --kibana-user")
	addNonEmpty(cmd.Flags(), &a.ca, "kibana-ca", "PEM file with the certificate authorities to trust for Kibana")
}

// open checks the flags and returns a client; nil without --kibana.
func (a kibanaFlags) open() (*kibana.Client, error) {
	if a.url == "" {
		if a != (kibanaFlags{}) {
			return nil, usagef("--kibana-user, --kibana-password-file and --kibana-ca need --kibana")
		}
		return nil, nil
	}
	to, err := url.Parse(a.url)
	if err != nil || to.Host == "" {
		return nil, usagef("--kibana %s: expected a URL such as http://localhost:5601", config.NewURL(a.url))
	}
	if err := a.addLogin(to); err != nil {
		return nil, err
	}
	trusted, err := secret.TLS("--kibana", config.TLS{CA: a.ca})
	if err != nil {
		return nil, system.InputError{Err: err}
	}
	return kibana.NewClient(to, trusted), nil
}

// addLogin puts the user and the password of the flags into the URL.
func (a kibanaFlags) addLogin(to *url.URL) error {
	if (a.user == "") != (a.passwordFile == "") {
		return usagef("--kibana-user and --kibana-password-file: expected both or neither")
	}
	if a.user == "" {
		return nil
	}
	if to.User != nil {
		return usagef("--kibana-user: --kibana %s names a user too", config.NewURL(a.url))
	}
	password, err := secret.Text("--kibana-password-file", a.passwordFile)
	if err != nil {
		return system.InputError{Err: err}
	}
	to.User = url.UserPassword(a.user, password)
	return nil
}
