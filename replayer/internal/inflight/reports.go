package inflight

import (
	"context"

	"github.com/watershipmq/watership/internal/history"
)

// Reports reads outcomes from the reports of consumers.
type Reports struct {
	*history.Reports
	Final bool // a message with another attempt to come has no outcome yet
}

// Outcomes implements Config.Outcomes.
func (r Reports) Outcomes(ctx context.Context, messages []Message) (map[string]Outcome, error) {
	sent := make([]history.SentMessage, len(messages))
	for i, m := range messages {
		sent[i] = history.SentMessage{EventID: m.ID, Fingerprint: m.Fingerprint, Stream: m.Stream}
	}
	read, err := r.Read(ctx, sent)
	if err != nil {
		return nil, err
	}
	outcomes := map[string]Outcome{}
	for id, report := range read {
		switch {
		case !r.isFinished(report):
		case report.Failed:
			outcomes[id] = Failed
		default:
			outcomes[id] = Handled
		}
	}
	return outcomes, nil
}

func (r Reports) isFinished(report history.Report) bool {
	return report.Reported && (report.Final || !r.Final)
}

// Restore adds the messages of earlier runs of a job to a sender, among the newest and those
// without a report, and stops the streams that have failed.
func (r Reports) Restore(ctx context.Context, newest int, resume func(Message), fail func(stream string)) error {
	unfinished, failed, err := r.Unfinished(ctx, newest, r.isFinished)
	for _, m := range unfinished {
		resume(Message{ID: m.EventID, Fingerprint: m.Fingerprint, Stream: m.Stream})
	}
	for stream := range failed {
		fail(stream)
	}
	return err
}
