// Package approvals lets actions wait for a second person. A rule of the configuration says which: the
// request is kept as a record of the store with the number that its plan has counted, and is done
// when another identity approves it. Commands with the logins of the servers need no approval.
package approvals

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/system"
)

// State is the state of an approval.
type State string

// The states. An action stays approved if its process ends meanwhile: it can be
// approved again after decideTimeout, and a replay starts once while its key is known.
const (
	Waiting  State = "waiting"
	Approved State = "approved" // and not done yet
	Done     State = "done"
	Failed   State = "failed" // it was approved, and nothing or a part was done
	Refused  State = "refused"
	Expired  State = "expired" // there was no decision in time
)

// Approval is an action that waits for a second person, or has waited.
type Approval struct {
	ID      string          `json:"id"`
	State   State           `json:"state" enum:"waiting,approved,done,failed,refused,expired"`
	Action  Action          `json:"action" enum:"replay,edit,discard,waiting,policy,erase"`
	Request json.RawMessage `json:"request" doc:"The parameters and the body of its request"`
	Matched int             `json:"matched" doc:"Number of those that it changes: this many or none, and of waiting messages at most this many"`
	Targets []string        `json:"targets" nullable:"false" doc:"Queues of the messages, or queues and exchanges to which they are sent"`
	Reason  string          `json:"reason,omitempty" doc:"Of who asks"`
	By      string          `json:"by" doc:"Who asks"`
	Client  string          `json:"client,omitempty" doc:"The program that asks for them, such as an agent"`
	Created time.Time       `json:"created"`
	Expires time.Time       `json:"expires" doc:"Nobody can approve it after that"`
	Needs   access.Role     `json:"needs" enum:"viewer,operator,admin" doc:"Role of who approves it"`

	Decider string     `json:"decider,omitempty" doc:"Who has approved or refused it"`
	Decided *time.Time `json:"decided,omitempty"`
	Note    string     `json:"note,omitempty" doc:"Why, in their words"`
	Result  string     `json:"result,omitempty" doc:"What became of it: the response of the operation, or its problem"`
}

// record is an approval as the store keeps it.
type record struct {
	Approval
	Operation string          // id
	Input     json.RawMessage // of the operation
	Asker     access.Identity // with the permissions at that time
	Digest    string          // of the request
}

const recordKind = "approval"

// Times and numbers of approvals that are kept.
const (
	keptFor        = 30 * 24 * time.Hour
	maxWaiting     = 100
	maxWaitingEach = 10 // of one who asks
)

// Service keeps the approvals of a System.
type Service struct {
	System *system.System
	Set    *operation.Set // whose operations are approved
}

// at returns the approval as it is at a time.
func (a Approval) at(now time.Time) Approval {
	if a.State == Waiting && now.After(a.Expires) {
		a.State = Expired
	}
	if a.State == Approved && a.Decided != nil && now.After(a.forgotten()) {
		a.State, a.Result = Failed, "its outcome is unknown, since the server that did it has ended: look at the jobs and the events of the messages before you ask anew"
	}
	return a
}

// forgotten returns when an approved action cannot be done again: another attempt might be a second replay.
func (a Approval) forgotten() time.Time {
	end := a.Decided.Add(replays.KeyAge)
	if a.Expires.Before(end) {
		end = a.Expires
	}
	if done := a.Decided.Add(decideTimeout); end.Before(done) {
		return done
	}
	return end
}

// visible returns an approval as the caller may see it: a program may have the body that an operator has
// written for a message, and results quote it.
func (a Approval) visible(ctx context.Context) Approval {
	if access.ShowsBodies(ctx) || !a.hasProgram() {
		return a
	}
	var members map[string]json.RawMessage
	_ = json.Unmarshal(a.Request, &members) // hasProgram has read it
	members["transform"], _ = json.Marshal(access.HiddenProgram)
	a.Request, _ = json.Marshal(members)
	if a.Result != "" {
		a.Result = access.HiddenProgram
	}
	return a
}

func (a Approval) hasProgram() bool {
	var r struct{ Transform string }
	_ = json.Unmarshal(a.Request, &r) // it was written by this package
	return r.Transform != ""
}

func mayRead(caller access.Identity) bool { return caller.Bodies || caller.Method == access.ByLogins }

// records returns all records, the newest first, also those that ended long ago until deleteOld deletes them.
func (s Service) records(ctx context.Context) ([]record, error) {
	store, err := s.System.Store(ctx)
	if err != nil {
		return nil, err
	}
	now, list := time.Now(), []record{}
	for document, err := range store.Records(ctx, recordKind) {
		if err != nil {
			return nil, fmt.Errorf("reading the approvals: %w", err)
		}
		var found record
		if err := json.Unmarshal(document, &found); err != nil {
			continue // of a later version
		}
		found.Approval = found.at(now)
		list = append(list, found)
	}
	slices.SortFunc(list, func(a, b record) int {
		return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.ID, b.ID))
	})
	return list, ctx.Err()
}

// deleteOld deletes the records of approvals that ended long ago.
func (s Service) deleteOld(ctx context.Context, list []record) error {
	store, err := s.System.Store(ctx)
	if err != nil {
		return err
	}
	for _, old := range list {
		if time.Since(old.Expires) < keptFor {
			continue
		}
		version, err := eventstore.ReadRecord(ctx, store, recordKind, old.ID, &old)
		if err == nil && version != "" {
			_, err = store.DeleteRecord(ctx, recordKind, old.ID, version)
		}
		if err != nil {
			return fmt.Errorf("deleting an old approval: %w", err)
		}
	}
	return nil
}

// change saves an approval that a function changes, until no other process is faster.
func (s Service) change(ctx context.Context, id string, change func(kept *record) error) (record, error) {
	store, err := s.System.Store(ctx)
	if err != nil {
		return record{}, err
	}
	for {
		var kept record
		version, err := eventstore.ReadRecord(ctx, store, recordKind, id, &kept)
		if err != nil {
			return kept, err
		}
		if version == "" {
			return kept, problem.NotFound("there is no approval " + id)
		}
		kept.Approval = kept.at(time.Now())
		if err := change(&kept); err != nil {
			return kept, err
		}
		if saved, err := eventstore.SaveRecord(ctx, store, recordKind, id, version, kept); saved != "" || err != nil {
			return kept, err
		}
	}
}
