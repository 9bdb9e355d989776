package shadow

import (
	"cmp"
	"maps"
	"slices"
)

// Kind is a kind of difference.
type Kind string

// The differences between the candidate and the record.
const (
	Fails            Kind = "fails"             // it was handled
	Recovers         Kind = "recovers"          // it failed, and the candidate handles it
	FailsDifferently Kind = "fails_differently" // with another error type, class or message
	Outgoing         Kind = "outgoing"          // other outgoing messages
)

// Reason is the reason for which a message is left out. Its values are stable.
type Reason string

// The reasons in reports.
const (
	NoOutcome  Reason = "no_outcome" // no queue has reported about the message
	Unreadable Reason = "unreadable" // its document cannot be read
	NoBody     Reason = "no_body"    // its body is not in the store
	Redacted   Reason = "redacted"   // its values were replaced as it was recorded
)

// Report is the result of a run.
type Report struct {
	Messages int `json:"messages"` // of the history
	Compared int `json:"compared"` // calls of the handler
	Same     int `json:"same"`

	// Unlisted counts calls that handled a message as recorded, and whose outgoing messages
	// could not be compared: the candidate does not list them, or the record does not tell
	// which queue has published them.
	Unlisted int `json:"outgoing_not_compared"`

	LeftOut map[Reason]int `json:"left_out"` // messages
	Groups  []Group        `json:"differences"`
	Others  int            `json:"other_differences,omitempty"` // beyond the first groups
}

// Group are the differences of one kind.
type Group struct {
	Queue    string    `json:"queue"`
	Kind     Kind      `json:"kind"`
	Type     string    `json:"message_type,omitempty"`
	Detail   string    `json:"detail"` // the error, or the place in the outgoing messages
	Count    int       `json:"count"`
	Examples []Example `json:"examples"`
}

// Example is a message with a difference.
type Example struct {
	EventID     string   `json:"event_id"`
	MessageID   string   `json:"message_id,omitempty"`
	Fingerprint string   `json:"fingerprint"`
	Recorded    string   `json:"recorded"`
	Candidate   string   `json:"candidate"`
	Differences []string `json:"differences,omitempty"` // of the outgoing messages
}

// Different returns the number of calls with a difference.
func (r Report) Different() int { return r.Compared - r.Same }

// difference is a difference of one call.
type difference struct {
	kind                Kind
	detail              string
	recorded, candidate string
	found               []string
}

const (
	maxGroups   = 1000
	maxExamples = 3 // of a group
)

// add adds a difference. The groups are sorted, the largest first.
func (r *Report) add(d difference, c *call) {
	kind := c.Envelope.Properties.Type
	at := slices.IndexFunc(r.Groups, func(g Group) bool {
		return g.Queue == c.Queue && g.Kind == d.kind && g.Type == kind && g.Detail == d.detail
	})
	if at < 0 {
		if len(r.Groups) == maxGroups {
			r.Others++
			return
		}
		at = len(r.Groups)
		r.Groups = append(r.Groups, Group{Queue: c.Queue, Kind: d.kind, Type: kind, Detail: d.detail})
	}
	g := &r.Groups[at]
	if g.Count++; len(g.Examples) < maxExamples {
		g.Examples = append(g.Examples, Example{c.EventID, c.Envelope.Properties.MessageID, c.Fingerprint, d.recorded, d.candidate, d.found})
	}
	slices.SortStableFunc(r.Groups, func(a, b Group) int { return cmp.Compare(b.Count, a.Count) })
}

// clone returns a copy whose changes do not change the report.
func (r Report) clone() Report {
	r.LeftOut = maps.Clone(r.LeftOut)
	if r.LeftOut == nil {
		r.LeftOut = map[Reason]int{}
	}
	r.Groups = append([]Group{}, r.Groups...)
	for i := range r.Groups {
		r.Groups[i].Examples = slices.Clone(r.Groups[i].Examples)
	}
	return r
}
