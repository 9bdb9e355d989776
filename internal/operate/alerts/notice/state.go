package notice

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// State is the record of all alerts and receivers of a source. Every change of it is a
// method, which asks no clock and no server.
type State struct {
	Source string `json:"source"`

	// Holder is the process that evaluates and notifies; "": none. A process whose lease is
	// taken over finds the version of the record changed.
	Holder string    `json:"holder,omitempty"`
	Saved  time.Time `json:"saved"`

	Rules     map[string]*RuleState     `json:"rules"`
	Alerts    map[string]*tracked       `json:"alerts"` // by key
	Receivers map[string]*ReceiverState `json:"receivers"`
}

// RuleState is the state of a rule.
type RuleState struct {
	Evaluated time.Time       `json:"evaluated"`
	Memory    json.RawMessage `json:"memory,omitempty"` // of the rule
	Error     string          `json:"error,omitempty"`  // of the latest evaluation
	Omitted   int             `json:"omitted,omitempty"`
	Receivers []string        `json:"receivers,omitempty"`
}

// ReceiverState is the state of a receiver.
type ReceiverState struct {
	Sent     time.Time     `json:"sent,omitzero"`     // the latest notice that was taken
	Sending  string        `json:"sending,omitempty"` // id of a notice that may have been taken
	Failures int           `json:"failures,omitempty"`
	Error    string        `json:"error,omitempty"`
	Refused  time.Time     `json:"refused,omitzero"` // the latest of these attempts
	Pause    time.Duration `json:"pause,omitempty"`  // after it, until the next one
}

// tracked is an alert with its life.
type tracked struct {
	Alert
	Receivers []string        `json:"receivers"`
	Since     time.Time       `json:"since,omitzero"`    // the condition holds since then; zero: it does not
	Fired     time.Time       `json:"fired,omitzero"`    // zero: not yet
	Resolved  time.Time       `json:"resolved,omitzero"` // zero: not
	Changed   time.Time       `json:"changed,omitzero"`  // latest change between firing and resolved
	Told      map[string]told `json:"told"`              // by receiver
}

// told is the latest notice of an alert that a receiver has taken.
type told struct {
	Firing bool      `json:"firing"`
	At     time.Time `json:"at"`
}

func newState(source string) *State {
	return &State{Source: source, Rules: map[string]*RuleState{}, Alerts: map[string]*tracked{}, Receivers: map[string]*ReceiverState{}}
}

// correct replaces the times that are later than now by now. They come from a clock that was
// ahead, and whatever waits for a time after them would wait as much longer.
func (s *State) correct(now time.Time) {
	limit := func(at *time.Time) {
		if at.After(now) {
			*at = now
		}
	}
	for _, t := range s.Alerts {
		for _, at := range []*time.Time{&t.Since, &t.Fired, &t.Resolved, &t.Changed} {
			limit(at)
		}
		for receiver, last := range t.Told {
			limit(&last.At)
			t.Told[receiver] = last
		}
	}
	for _, to := range s.Receivers {
		limit(&to.Sent)
		limit(&to.Refused)
	}
	for _, rule := range s.Rules {
		limit(&rule.Evaluated)
	}
}

func (t *tracked) fires() bool { return !t.Fired.IsZero() && t.Resolved.IsZero() }

// isOver reports whether the alert is resolved and its condition does not hold again.
func (t *tracked) isOver() bool { return !t.Resolved.IsZero() && t.Since.IsZero() }

// isOfStore reports whether the alert says that the store is unavailable, which another process
// cannot save either: its notice does not wait for a save.
func (t *tracked) isOfStore() bool { return t.On == OnDoctor && t.Labels["check"] == "store" }

func (t *tracked) item() Item {
	item := Item{Alert: t.Alert, Status: Firing, Since: t.Fired}
	switch {
	case t.Fired.IsZero():
		item.Status, item.Since = Pending, t.Since
	case !t.Resolved.IsZero():
		ended := t.Resolved
		item.Status, item.Ended = Resolved, &ended
	}
	return item
}

// MaxOfRule bounds the alerts of a rule. Those beyond it are counted. It bounds the resolved ones as
// well that some receiver does not know: a receiver that is down leaves the others theirs.
const MaxOfRule = 500

// observe applies the alerts that a rule has found: these, and no others, hold now.
func (s *State) observe(now time.Time, rule Rule, found []Alert) {
	holding, room := map[string]bool{}, MaxOfRule
	for _, t := range s.Alerts {
		if t.Rule == rule.Name && !t.isOver() {
			room--
		}
	}
	omitted := 0
	for _, a := range found {
		a.Rule, a.On, a.Severity, a.Extra = rule.Name, rule.On, rule.Severity, rule.Labels
		key := a.Key()
		if a.Muted != "" {
			if t := s.Alerts[key]; t != nil && t.fires() {
				t.Alert = a
			}
			continue
		}
		if t := s.Alerts[key]; (t == nil || t.isOver()) && !holding[key] {
			if room--; room < 0 {
				omitted++
				continue
			}
		}
		holding[key] = true
		s.hold(now, rule, key, a)
	}
	for key, t := range s.Alerts {
		if t.Rule == rule.Name && !holding[key] {
			s.end(now, key)
		}
	}
	s.rule(rule.Name).Omitted, s.rule(rule.Name).Receivers = omitted, rule.Receivers
}

// hold notes that the condition of an alert holds.
func (s *State) hold(now time.Time, rule Rule, key string, a Alert) {
	t := s.Alerts[key]
	if t == nil {
		t = &tracked{Told: map[string]told{}}
		s.Alerts[key] = t
	}
	t.Alert, t.Receivers = a, rule.Receivers
	if t.Since.IsZero() {
		t.Since = now
	}
	if t.fires() || now.Sub(t.Since) < rule.For {
		return
	}
	if t.Fired.IsZero() {
		t.Fired = now
	}
	t.Resolved, t.Changed = time.Time{}, now
}

// end notes that the condition of an alert does not hold.
func (s *State) end(now time.Time, key string) {
	t := s.Alerts[key]
	t.Since = time.Time{}
	switch {
	case t.Fired.IsZero():
		delete(s.Alerts, key)
	case t.Resolved.IsZero():
		t.Resolved, t.Changed = now, now
	}
}

// retain ends the alerts of rules that there are no more, and forgets receivers that there
// are no more.
func (s *State) retain(now time.Time, rules []Rule, receivers []Receiver) {
	for key, t := range s.Alerts {
		if !slices.ContainsFunc(rules, func(r Rule) bool { return r.Name == t.Rule }) {
			s.end(now, key)
		}
	}
	isReceiver := func(name string) bool {
		return slices.ContainsFunc(receivers, func(r Receiver) bool { return r.Name == name })
	}
	for _, t := range s.Alerts {
		t.Receivers = slices.DeleteFunc(slices.Clone(t.Receivers), func(name string) bool { return !isReceiver(name) })
	}
	maps.DeleteFunc(s.Receivers, func(name string, _ *ReceiverState) bool { return !isReceiver(name) })
	maps.DeleteFunc(s.Rules, func(name string, _ *RuleState) bool {
		return !slices.ContainsFunc(rules, func(r Rule) bool { return r.Name == name })
	})
	s.forget()
}

// forget deletes the resolved alerts that every receiver knows, and of the others the oldest ones
// beyond MaxOfRule.
func (s *State) forget() {
	over := map[string][]string{} // keys by rule
	maps.DeleteFunc(s.Alerts, func(key string, t *tracked) bool {
		if !t.isOver() {
			return false
		}
		isUnknown := slices.ContainsFunc(t.Receivers, func(name string) bool {
			told, is := t.Told[name]
			return !is || told.Firing
		})
		if isUnknown {
			over[t.Rule] = append(over[t.Rule], key)
		}
		return !isUnknown
	})
	for _, keys := range over {
		slices.SortFunc(keys, func(a, b string) int { return s.Alerts[b].Resolved.Compare(s.Alerts[a].Resolved) })
		for _, key := range keys[min(len(keys), MaxOfRule):] {
			delete(s.Alerts, key)
		}
	}
}

func (s *State) rule(name string) *RuleState {
	if s.Rules[name] == nil {
		s.Rules[name] = &RuleState{}
	}
	return s.Rules[name]
}

func (s *State) receiver(name string) *ReceiverState {
	if s.Receivers[name] == nil {
		s.Receivers[name] = &ReceiverState{}
	}
	return s.Receivers[name]
}

// Untold returns the number of alerts whose latest change a receiver was not told of, and the time
// of the earliest of these changes.
func (s *State) Untold(receiver string) (n int, since time.Time) {
	for _, t := range s.Alerts {
		if t.Fired.IsZero() || !slices.Contains(t.Receivers, receiver) {
			continue
		}
		if told, was := t.Told[receiver]; was && told.Firing == t.fires() {
			continue
		}
		if n++; n == 1 || t.Changed.Before(since) {
			since = t.Changed
		}
	}
	return n, since
}

// Omitted returns the number of alerts beyond the most that a rule has, of rules with a receiver;
// of all for "".
func (s *State) Omitted(receiver string) int {
	n := 0
	for _, rule := range s.Rules {
		if receiver == "" || slices.Contains(rule.Receivers, receiver) {
			n += rule.Omitted
		}
	}
	return n
}

// Items returns the alerts that fire, then those that are pending, each the oldest first.
func (s *State) Items() []Item {
	items := []Item{}
	for _, t := range s.Alerts {
		if item := t.item(); item.Status != Resolved {
			items = append(items, item)
		}
	}
	sortItems(items)
	return items
}

func sortItems(items []Item) {
	rank := map[string]int{Firing: 0, Pending: 1, Resolved: 2}
	slices.SortFunc(items, func(a, b Item) int {
		return cmp.Or(cmp.Compare(rank[a.Status], rank[b.Status]), a.Since.Compare(b.Since), cmp.Compare(a.identity(), b.identity()))
	})
}
