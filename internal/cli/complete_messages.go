package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/app"
)

// mostCompleted are read to find message ids that begin as wanted.
const mostCompleted = 200 // events, the newest

// completeMessages offers a shell the ids of the newest messages.
func (s *settings) completeMessages(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	a, err := s.open(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer a.Close()
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	return beginningWith(begun, "", messageIDs(ctx, a, begun)), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

func messageIDs(ctx context.Context, a *app.App, begun string) []string {
	store, err := a.Store(ctx)
	if err != nil {
		return nil
	}
	begins := kql.Is{
		Field: kql.Pattern{"messaging.message.id"}, Value: kql.Value{Pattern: kql.Pattern{begun, ""}},
	}
	var ids []string
	for event, err := range store.Events(ctx, eventstore.Selection{Query: begins, Limit: mostCompleted, WithoutBody: true}) {
		id := event.Envelope.Properties.MessageID
		if err == nil && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}
