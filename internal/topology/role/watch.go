package role

import (
	"context"
	"log/slog"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/schemas"
)

// Watcher looks for processes that have a role.
type Watcher struct {
	Topology   schemas.Topology
	Connection *rabbit.Connection
	Every      time.Duration
	Logger     *slog.Logger
}

// missingLooks is the number of looks in a row that find no consumer until that is logged.
const missingLooks = 2

// Watch logs when no process has a role that messages of routes need, until ctx ends. A process
// that restarts is no reason for a log, and this one knows its own roles, whose consumers may
// still be starting.
func (w Watcher) Watch(ctx context.Context, isOwn func(Role) bool) {
	others := slices.DeleteFunc([]Role{Retry, Due, Poison}, isOwn)
	ticker := time.NewTicker(w.Every)
	defer ticker.Stop()
	for missing := map[Role]int{}; ; { // looks in a row
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		for _, r := range others {
			w.look(ctx, r, missing)
		}
	}
}

func (w Watcher) look(ctx context.Context, r Role, missing map[Role]int) {
	absent, err := w.hasNoConsumer(ctx, r.Queues(w.Topology))
	if err != nil {
		return // the connection logs its problems
	}
	if !absent {
		if missing[r] >= missingLooks {
			w.Logger.Info("a process has the role of Watership again", "role", r)
		}
		missing[r] = 0
		return
	}
	if missing[r]++; missing[r] == missingLooks {
		w.Logger.Error("messages wait, since no process has a role of Watership; run watership serve, or set Standalone in one pipeline",
			"role", r, "queues", r.Queues(w.Topology))
	}
}

func (w Watcher) hasNoConsumer(ctx context.Context, queues []string) (bool, error) {
	absent := false
	for _, name := range queues {
		err := w.Connection.Do(ctx, func(ch *amqp.Channel) error {
			queue, err := ch.QueueDeclarePassive(name, false, false, false, false, nil)
			absent = absent || queue.Consumers == 0
			return err
		})
		if err != nil {
			return false, err
		}
	}
	return absent, nil
}
