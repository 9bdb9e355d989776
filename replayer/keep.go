package replayer

import (
	"errors"
	"time"

	"github.com/watershipmq/watership/schemas"
)

// storePatience is how long a store may be away or busy, as long as a broker.
// Meanwhile nothing is sent beyond the window.
const storePatience = returnTime

// keep counts what became of each message, in order, and saves the job. It is
// the only one that changes the job.
func (f *flight) keep() {
	defer close(f.landed)
	ticker := time.NewTicker(saveOften)
	defer ticker.Stop()
	unsaved, saved, broken := 0, f.r.now(), false
	save := func() {
		if !f.checkpoint(&saved) {
			return
		}
		for ; unsaved > 0; unsaved-- {
			<-f.window
		}
	}
	for {
		select {
		case p, more := <-f.settled:
			if !more {
				return
			}
			// Behind one that stopped the job others may have arrived. They are
			// sent again: a cursor has no gaps.
			if broken = broken || !f.count(p); broken {
				continue
			}
			if unsaved++; unsaved >= saveEvery {
				save()
			}
		case <-ticker.C:
			save()
		}
	}
}

// count says no to a message that stops the job.
func (f *flight) count(p *passage) bool {
	switch {
	case p.leftOut != "":
		f.job.Skipped++
	case p.err == nil:
		f.job.Sent++
	case concernsOneMessage(p.err):
		f.job.fail(Failure{p.event.EventID, p.event.Envelope.Properties.MessageID, p.problem()})
	default:
		f.stopFeeding(p.err)
		return false
	}
	if !p.late {
		f.job.Cursor = schemas.Cursor{Sequence: p.event.Sequence, EventID: p.event.EventID}
		f.job.Seen = p.seen
	}
	if f.options.Progress != nil {
		f.options.Progress(*f.job)
	}
	return true
}

// checkpoint saves the job, and finds out that way whether it was cancelled.
func (f *flight) checkpoint(saved *time.Time) bool {
	err := f.r.save(f.flying, f.job)
	var over *TakenOverError
	switch {
	case err == nil:
		*saved = f.r.now()
		return true
	case errors.As(err, &over):
		f.overruled(over)
	case f.r.now().Sub(*saved) > storePatience:
		f.stopFeeding(err)
	}
	return false
}

func (f *flight) overruled(over *TakenOverError) {
	err := f.r.overruled(f.flying, f.job, over)
	if err == nil {
		return
	}
	f.stopFeeding(err)
	if errors.As(err, &over) {
		f.ground(over)
	}
}

// adopt takes over what is in the store instead: that the job was cancelled, or
// what its own runner saved without getting an answer. It says no to what
// another runner has saved.
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
