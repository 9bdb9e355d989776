package statuspage

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/operate/doctor"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/server"
)

// OpenFailures are unresolved failures by queue.
type OpenFailures struct {
	Total  int
	Queues []QueueFailures // those with the most
	Others int             // queues that are left out
	counts map[string]int  // of all queues

	Fresh     []failures.FailureGroup // that are new, have regressed or escalate, and are not muted: the newest
	More      int                     // such groups that are left out
	New, Back int                     // groups that are new since the last hour, and that have regressed
}

const (
	maxFresh = 6
	justNow  = time.Hour
)

// QueueFailures is the number of failures of a queue.
type QueueFailures struct {
	Queue, Link string
	Count       int
}

const maxQueues = 12 // of OpenFailures

// NewOpenFailures sorts the numbers of failures of the API.
func NewOpenFailures(of failures.GroupPage) OpenFailures {
	failures := OpenFailures{Total: of.Failures, counts: of.Queues}
	queues := slices.SortedFunc(maps.Keys(of.Queues), func(a, b string) int {
		return cmp.Or(cmp.Compare(of.Queues[b], of.Queues[a]), cmp.Compare(a, b))
	})
	for _, queue := range queues[:min(len(queues), maxQueues)] {
		failures.Queues = append(failures.Queues, QueueFailures{queue, "/failures?" + ofQueue(queue), of.Queues[queue]})
	}
	failures.Others = len(queues) - len(failures.Queues)
	failures.addFresh(of.Groups)
	return failures
}

// addFresh adds the groups that are new, regressed or escalating.
func (f *OpenFailures) addFresh(groups []failures.FailureGroup) {
	for _, g := range groups {
		if g.Muted != nil || !g.New && !g.Regressed && !g.Escalating {
			continue
		}
		if g.New && time.Since(g.First) < justNow {
			f.New++
		}
		if g.Regressed {
			f.Back++
		}
		if len(f.Fresh) == maxFresh {
			f.More++
			continue
		}
		f.Fresh = append(f.Fresh, g)
	}
}

// Of is the number of failures of a queue.
func (f OpenFailures) Of(queue string) int { return f.counts[queue] }

// Server is the state of the server and of the queues that it indexes.
type Server struct {
	server.Status
	Waiting int            // messages that are not in the store yet
	Lag     *time.Duration // of the slowest queue; nil: it is not known
}

// NewServer sums up the state of the server.
func NewServer(of server.Status) Server {
	s := Server{Status: of}
	for _, q := range of.Index {
		s.Waiting += q.Messages
		if q.Lag == nil {
			continue
		}
		if lag := frame.Seconds(*q.Lag); s.Lag == nil || lag > *s.Lag {
			s.Lag = &lag
		}
	}
	return s
}

// Uptime is the time since the server was started.
func (s Server) Uptime() time.Duration { return time.Since(s.Started).Truncate(time.Second) }

// Diagnosis has the findings of doctor, the worst first.
type Diagnosis struct {
	doctor.Diagnosis
	Errors, Warnings int
}

// NewDiagnosis sorts the findings of doctor.
func NewDiagnosis(of doctor.Diagnosis) Diagnosis {
	d := Diagnosis{Diagnosis: of}
	d.Findings = slices.Clone(of.Findings) // which others read
	slices.SortStableFunc(d.Findings, func(a, b doctor.Finding) int { return cmp.Compare(severity(b), severity(a)) })
	for _, f := range d.Findings {
		switch f.Verdict {
		case doctor.Error:
			d.Errors++
		case doctor.Warning:
			d.Warnings++
		}
	}
	return d
}

func severity(f doctor.Finding) int {
	return slices.Index([]doctor.Verdict{doctor.OK, doctor.Warning, doctor.Error}, f.Verdict)
}

// Problems are the findings with errors and warnings.
func (d Diagnosis) Problems() []doctor.Finding { return d.Findings[:d.Errors+d.Warnings] }

// Check has the findings of one check.
type Check struct {
	Name     doctor.Check
	Findings []doctor.Finding
}

// Checks are the findings by their checks.
func (d Diagnosis) Checks() []Check {
	var checks []Check
	at := map[doctor.Check]int{}
	for _, f := range d.Findings {
		i, known := at[f.Check]
		if !known {
			i = len(checks)
			at[f.Check] = i
			checks = append(checks, Check{Name: f.Check})
		}
		checks[i].Findings = append(checks[i].Findings, f)
	}
	return checks
}
