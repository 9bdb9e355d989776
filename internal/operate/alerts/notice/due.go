package notice

import (
	"cmp"
	"slices"
	"time"
)

// Pace limits the notices to a receiver.
type Pace struct {
	Wait     time.Duration // from the first change of an alert to its notice, so that a burst is one notice
	Interval time.Duration // at least, between two notices
	Repeat   time.Duration // between two notices of an alert that keeps firing
}

// entry is an alert in a notice, with its change.
type entry struct {
	Key     string    `json:"key"`
	Firing  bool      `json:"firing"`
	Changed time.Time `json:"changed"`
	Told    time.Time `json:"told,omitzero"` // of a repeated one
}

// due returns the entries of the next notice to a receiver, and when it is due; no entries: it
// gets none as things are, but may at that time, unless that is zero.
func (s *State) due(now time.Time, receiver string, pace Pace) ([]entry, time.Time) {
	to := s.receiver(receiver)
	if to.Sending != "" {
		return nil, time.Time{}
	}
	var entries []entry
	var first time.Time // when a notice is due, by its alerts
	for key, t := range s.Alerts {
		if t.Fired.IsZero() || !slices.Contains(t.Receivers, receiver) {
			continue
		}
		told, was := t.Told[receiver]
		e, at := entry{Key: key, Firing: t.fires(), Changed: t.Changed}, t.Changed.Add(pace.Wait)
		if was && told.Firing == e.Firing {
			if e.Told, at = told.At, told.At.Add(pace.Repeat); !e.Firing {
				continue
			}
		}
		if first.IsZero() || at.Before(first) {
			first = at
		}
		if e.Told.IsZero() || !now.Before(at) {
			entries = append(entries, e)
		}
	}
	if first.IsZero() {
		return nil, first
	}
	for _, earliest := range []time.Time{to.Refused.Add(to.Pause), to.Sent.Add(pace.Interval)} {
		if first.Before(earliest) {
			first = earliest
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Or(a.Changed.Compare(b.Changed), cmp.Compare(a.Key, b.Key)) })
	return entries, first
}

// notice makes the notice of some entries.
func (s *State) notice(now time.Time, receiver string, entries []entry, link string) Notice {
	n := Notice{ID: noticeID(receiver, entries), Source: s.Source, Receiver: receiver, Time: now, Status: Resolved, Alerts: []Item{}, Link: link, Omitted: s.Omitted(receiver)}
	listed := map[string]bool{}
	for _, e := range entries {
		listed[e.Key] = true
		if e.Firing {
			n.Status = Firing
		}
		n.Alerts = append(n.Alerts, s.Alerts[e.Key].item())
	}
	sortItems(n.Alerts)
	for key, t := range s.Alerts {
		if !listed[key] && t.fires() && slices.Contains(t.Receivers, receiver) {
			n.Others++
		}
	}
	return n
}

// taken notes that a receiver has taken a notice.
func (s *State) taken(now time.Time, receiver string, entries []entry) {
	for _, e := range entries {
		if t := s.Alerts[e.Key]; t != nil {
			t.Told[receiver] = told{e.Firing, now}
		}
	}
	s.Receivers[receiver] = &ReceiverState{Sent: now}
	s.forget()
}

// refused notes that a receiver has not taken a notice, which is due again after a pause.
func (s *State) refused(now time.Time, receiver string, err error, pause time.Duration) {
	to := s.receiver(receiver)
	to.Sending, to.Failures, to.Error, to.Refused, to.Pause = "", to.Failures+1, firstRunes(err.Error(), maxError), now, pause
}

const maxError = 500

func firstRunes(text string, n int) string {
	if runes := []rune(text); len(runes) > n {
		return string(runes[:n]) + "…"
	}
	return text
}
