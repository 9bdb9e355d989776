package replayer

import (
	"errors"
	"time"

	"github.com/watershipmq/watership/eventstore"
)

// storeTimeout is the longest outage of the store that a run waits for, the same as of
// a broker. Until then the run sends at most one window of messages.
const storeTimeout = reconnectTimeout

// countOutcomes counts the outcome of each message, in the order of the scan, and saves the
// job. No other goroutine changes the job.
func (run *run) countOutcomes() {
	defer close(run.done)
	ticker := time.NewTicker(saveInterval)
	defer ticker.Stop()
	unsaved, saved, stopped := 0, run.replayer.now(), false
	early := map[int64]*inFlight{} // messages that were sent before earlier ones, by index
	next := int64(0)
	save := func() {
		if !run.saveCheckpoint(&saved) {
			return
		}
		for ; unsaved > 0; unsaved-- {
			<-run.window
		}
	}
	for {
		select {
		case m, more := <-run.recorded:
			if !more {
				return
			}
			run.noteUnsent(m)
			early[m.index] = m
			for m = early[next]; m != nil; m = early[next] {
				delete(early, next)
				next++
				// Messages after the one that stopped the job may have arrived. They are
				// sent again, since the cursor skips no message.
				if stopped = stopped || !run.count(m); stopped {
					continue
				}
				if unsaved++; unsaved >= checkpointSize {
					save()
				}
			}
		case <-ticker.C:
			save()
		}
	}
}

// count adds the outcome of a message to the job. It returns false for an error that
// stops the job.
func (run *run) count(m *inFlight) bool {
	switch {
	case m.leftOut == FilteredOut:
		run.job.Filtered++
	case m.leftOut == streamStopped:
		run.job.Stopped++
	case m.leftOut != "":
		run.job.Skipped++
	case m.err == nil:
		run.job.Sent++
	case concernsMessageOnly(m.err) && run.job.forgets(m.event.Stream.ID):
		run.stopSending(errTooManyStreams)
		return false
	case concernsMessageOnly(m.err):
		cause := causeOf(m.err)
		if cause != SubjectErased {
			run.unsent.Add(1)
		}
		run.job.fail(Failure{m.event.EventID, m.recorded.Properties.MessageID, cause, m.problem(), m.event.Stream.ID})
	default:
		run.stopSending(m.err)
		return false
	}
	if !m.late {
		run.job.Cursor = eventstore.Cursor{Sequence: m.event.Sequence, EventID: m.event.EventID}
		run.job.Scanned = m.scanned
	}
	if run.options.Progress != nil {
		run.options.Progress(*run.job)
	}
	return true
}

// saveCheckpoint saves the job and returns false if it could not. A cancelled job is
// noticed here.
func (run *run) saveCheckpoint(saved *time.Time) bool {
	err := run.replayer.save(run.confirming, run.job)
	var over *TakenOverError
	switch {
	case err == nil:
		*saved = run.replayer.now()
		return true
	case errors.As(err, &over):
		run.reload(over)
	case run.replayer.now().Sub(*saved) > storeTimeout:
		run.stopSending(err)
	}
	return false
}

func (run *run) reload(over *TakenOverError) {
	err := run.replayer.reload(run.confirming, run.job, over)
	if err == nil {
		return
	}
	run.stopSending(err)
	if errors.As(err, &over) {
		run.abort(over)
	}
}

// adopt copies the stored state into the job if the same runner saved it: a
// cancellation, or the version of a save whose response was lost. It returns false if
// another runner saved the job.
func (j *Job) adopt(latest Job) bool {
	switch {
	case latest.Runner != j.Runner:
		return false
	case latest.State == Cancelled:
		j.State, j.Problem, j.Ended = Cancelled, latest.Problem, latest.Ended
	}
	j.version = latest.version
	return true
}
