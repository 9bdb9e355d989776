package adoptions

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/system"
)

// State is the state of an adoption.
type State string

// The states.
const (
	Running     State = "running"
	Done        State = "done"
	Failed      State = "failed"
	Cancelled   State = "cancelled"
	Interrupted State = "interrupted" // its process has stopped, or was killed
)

// EndReason is why an adoption ended before its end.
type EndReason string

// The reasons.
const (
	ByCaller      EndReason = "cancelled"
	ServerStopped EndReason = "server_stopped"
	ProcessKilled EndReason = "process_killed"
	ByError       EndReason = "error"
)

// Adoption is the record of an adoption. It is in the store, so that every process of the
// API shows and cancels it.
type Adoption struct {
	ID       string `json:"id"`
	Source   string `json:"source" doc:"Name of the RabbitMQ system"`
	Operator string `json:"operator"`
	Request
	State State `json:"state" enum:"running,done,failed,cancelled,interrupted"`
	Total int   `json:"total" doc:"Messages to take in, as RabbitMQ counted them at the beginning"`
	Result
	Problem     string     `json:"problem,omitempty" doc:"Why it ended before its end"`
	ProblemCode EndReason  `json:"problem_code,omitempty" enum:"cancelled,server_stopped,process_killed,error" doc:"The same, for programs"`
	CancelledBy string     `json:"cancelled_by,omitempty" doc:"Who asked to cancel it"`
	Created     time.Time  `json:"created"`
	Updated     time.Time  `json:"updated"`
	Ended       *time.Time `json:"ended,omitempty"`
}

const (
	recordKind = "adoption"

	// staleAfter is the age of a save after which the process of an adoption counts as killed.
	staleAfter = 30 * time.Second

	maxRecords = 100 // of one source; older ones are deleted
)

// asOf returns the adoption with the state that it has at a time.
func (a Adoption) asOf(now time.Time) Adoption {
	if a.State == Running && now.Sub(a.Updated) > staleAfter {
		a.State, a.ProblemCode, a.Problem = Interrupted, ProcessKilled, "its process was killed: what is left is still in the queue"
	}
	return a
}

// end sets the final state.
func (a *Adoption) end(state State, why EndReason, problem string) {
	now := time.Now().UTC()
	a.State, a.ProblemCode, a.Problem, a.Ended = state, why, problem, &now
}

// records are the adoptions in the store of a System.
type records struct{ app *system.System }

// create saves a new adoption, and returns its version.
func (r records) create(ctx context.Context, a Adoption) (version string, err error) {
	store, err := r.app.Store(ctx)
	if err != nil {
		return "", err
	}
	if version, err = eventstore.SaveRecord(ctx, store, recordKind, a.ID, "", a); err == nil && version == "" {
		err = fmt.Errorf("there is an adoption %s already", a.ID)
	}
	return version, err
}

// save returns the version "" if another process has saved the adoption.
func (r records) save(ctx context.Context, a Adoption, version string) (string, error) {
	store, err := r.app.Store(ctx)
	if err != nil {
		return "", err
	}
	return eventstore.SaveRecord(ctx, store, recordKind, a.ID, version, a)
}

// read returns an adoption of the System's source.
func (r records) read(ctx context.Context, id string) (a Adoption, version string, err error) {
	store, err := r.app.Store(ctx)
	if err != nil {
		return a, "", err
	}
	source, err := r.app.Source(ctx)
	if err != nil {
		return a, "", &system.BrokerError{Err: err}
	}
	if version, err = eventstore.ReadRecord(ctx, store, recordKind, id, &a); err != nil {
		return a, "", err
	}
	if version == "" || a.Source != source {
		return a, "", problem.NotFound("there is no adoption " + id)
	}
	return a, version, nil
}

// list returns the adoptions of the System's source, the newest first.
func (r records) list(ctx context.Context) (list []Adoption, err error) {
	store, err := r.app.Store(ctx)
	if err != nil {
		return nil, err
	}
	source, err := r.app.Source(ctx)
	if err != nil {
		return nil, &system.BrokerError{Err: err}
	}
	for document, err := range store.Records(ctx, recordKind) {
		if err != nil {
			return nil, err
		}
		var a Adoption
		if json.Unmarshal(document, &a) == nil && a.Source == source { // another version may have written it
			list = append(list, a)
		}
	}
	return list, nil
}

// deleteOld deletes the oldest adoptions that have ended.
func (r records) deleteOld(ctx context.Context) error {
	list, err := r.list(ctx)
	if err != nil || len(list) <= maxRecords {
		return err
	}
	store, err := r.app.Store(ctx)
	if err != nil {
		return err
	}
	for _, old := range list[maxRecords:] {
		_, version, err := r.read(ctx, old.ID)
		if err == nil && old.asOf(time.Now()).State != Running {
			_, err = store.DeleteRecord(ctx, recordKind, old.ID, version)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
