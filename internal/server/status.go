package server

import (
	"context"
	"time"

	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/topology/role"
)

// Status is the state of the running server.
type Status struct {
	Version string       `json:"version"`
	Started time.Time    `json:"started"`
	Roles   []role.Role  `json:"roles" nullable:"false"`
	Ready   bool         `json:"ready"`
	Problem string       `json:"problem,omitempty" doc:"Why it is not ready"`
	Index   []IndexQueue `json:"index" nullable:"false" doc:"Queues of copies and events on their way to the store"`

	Reload *Reloaded `json:"reload,omitempty" doc:"The latest reload of the configuration; none: none since the start, or the caller is limited to some queues"`

	Watermark *Watermark `json:"watermark,omitempty" doc:"How far readers of new events may read; none: up to the newest stored event"`
}

// Watermark is a position up to which every event is in the store.
type Watermark struct {
	Sequence int64   `json:"sequence" doc:"The highest event.sequence"`
	Age      float64 `json:"age_seconds"`
}

// IndexQueue is a queue whose messages are not in the store yet.
type IndexQueue struct {
	Queue    string   `json:"queue"`
	Messages int      `json:"messages"`
	Lag      *float64 `json:"lag_seconds,omitempty" doc:"Age of the newest stored event while messages wait; none: the server does not index"`
}

// Status asks RabbitMQ and the store for the state of the running server.
func (s *Server) Status(ctx context.Context) (Status, error) {
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	status := Status{Version: system.Version(), Started: s.started, Roles: s.settings.Roles, Ready: true, Index: []IndexQueue{}, Reload: s.latest.Load()}
	if err := s.Ready(ctx); err != nil {
		status.Ready, status.Problem = false, err.Error()
	}
	if running := s.index.running.Load(); running != nil && running.CompleteUpTo() > 0 {
		status.Watermark = &Watermark{running.CompleteUpTo(), running.WatermarkAge().Seconds()}
	}
	conn, err := s.Connection()
	if err != nil || conn.Err() != nil {
		return status, err
	}
	for _, name := range s.Topology().Indexed() {
		state, err := readyState(ctx, conn, name)
		if err != nil || state.Uncertain && s.has(role.Index) {
			continue // it is not declared yet or does not answer, or Problem says more
		}
		queue := IndexQueue{Queue: name, Messages: state.Messages}
		if s.has(role.Index) {
			lag := s.index.lag(name, state.Messages).Seconds()
			queue.Lag = &lag
		}
		status.Index = append(status.Index, queue)
	}
	return status, nil
}
