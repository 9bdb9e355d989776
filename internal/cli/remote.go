package cli

import (
	"context"
	"crypto/tls"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/cli/client"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/operate/adoptions"
	"github.com/watershipmq/watership/internal/operate/doctor"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/operate/routes"
	"github.com/watershipmq/watership/internal/rabbit/tlsfiles"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/system/secret"
	"github.com/watershipmq/watership/pipeline/bodyschema"
	"github.com/watershipmq/watership/subscription"
)

// remote is a system through the HTTP API of a server.
type remote struct{ *client.Client }

// connect connects to the server of the configuration. It reads the token from its file,
// so that it is in no list of processes.
func connect(ctx context.Context, cmd *cobra.Command, cfg config.Server) (remote, error) {
	token, err := secret.Text("token_file", cfg.TokenFile)
	if err != nil {
		return remote{}, system.InputError{Err: err}
	}
	if doctor.ReadByAll(cfg.TokenFile) {
		streamsOf(cmd).Warn("token_file: every user of this machine may read %s: chmod 600 %[1]s", cfg.TokenFile)
	}
	var trust *tls.Config
	if cfg.CA != "" {
		if trust, err = tlsfiles.Load(tlsfiles.File{Setting: "server_ca", Path: cfg.CA}, tlsfiles.File{}, tlsfiles.File{}); err != nil {
			return remote{}, system.InputError{Err: err}
		}
	}
	c, err := client.Connect(ctx, client.Config{URL: cfg.URL.Reveal(), Token: token, TLS: trust, Cleartext: cfg.Cleartext})
	return remote{c}, err
}

// PageSize implements operations.
func (r remote) PageSize(most int) int { return most }

// Validate implements streams.
func (r remote) Validate(ctx context.Context, schema *bodyschema.Schema, queue string, sel eventstore.Selection, each func(messages.InvalidMessage) error) (messages.Summary, error) {
	if schema == nil {
		return r.Client.Validate(ctx, queue, sel, each)
	}
	return r.ValidateWith(ctx, schema, sel, each)
}

// FollowTo implements streams.
func (r remote) FollowTo(context.Context, string, string, func(subscription.Checkpoint)) error {
	return usagef("--follow cannot go through --server, since it runs in the command: use watership subscribe")
}

// Adopt implements streams.
func (r remote) Adopt(ctx context.Context, request adoptions.Request, follow bool) (adoptions.Result, error) {
	if follow {
		return adoptions.Result{}, usagef("--follow cannot go through --server, since it runs in the command: run it where amqp.url is configured")
	}
	return r.Client.Adopt(ctx, request)
}

// Queues implements backend.
func (r remote) Queues(ctx context.Context) []string {
	page, _ := routes.ListQueues.Call(ctx, r, routes.QueuesInput{Limit: 10_000})
	var names []string
	for _, queue := range page.Body.Queues {
		if !queue.Own {
			names = append(names, queue.Name)
		}
	}
	return names
}

// Exchanges implements backend.
func (r remote) Exchanges(ctx context.Context) []string {
	return topValues(ctx, r, kql.All{}, "messaging.destination.name")
}
