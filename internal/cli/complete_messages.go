package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
)

// mostCompleted are read to find message ids that begin as wanted.
const mostCompleted = 200 // events, the newest

// completeMessages offers a shell the ids of the newest messages.
func (s *settings) completeMessages(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	system, err := s.system(streamsOf(cmd))
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionPatience)
	defer cancel()
	return beginningWith(begun, "", messageIDs(ctx, system, begun)), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

func messageIDs(ctx context.Context, s system, begun string) []string {
	store, err := s.store(ctx)
	if err != nil {
		return nil
	}
	defer store.Close()
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
