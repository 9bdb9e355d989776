package doctor

import (
	"context"
	"net/http"
	"time"

	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/problem"
)

// RunDoctor declares the operation.
var RunDoctor = operation.Declare[DoctorInput, DoctorOutput](operation.Operation{
	Method: http.MethodGet, Path: "/doctor", ID: "runDoctor", Tag: "system", Role: access.Viewer, Timeout: 2 * time.Minute,
	Summary: "Check RabbitMQ, the store and the server",
	Text:    "For callers without limits: findings name queues and logins.",
})

// operations are the functions of the operations.
type operations struct {
	diagnose func(ctx context.Context) []Finding
	running  chan struct{} // has an element while doctor runs, or latest is read
	latest   Diagnosis
}

// Implement adds the operation to a set. diagnose runs every check.
func Implement(set *operation.Set, diagnose func(ctx context.Context) []Finding) {
	o := &operations{diagnose: diagnose, running: make(chan struct{}, 1)}
	operation.Implement(set, RunDoctor, o.run)
}

// DoctorInput is the input of RunDoctor.
type DoctorInput struct {
	MaxAge float64 `query:"max_age_seconds" minimum:"0" maximum:"86400" doc:"Return earlier results that are not older; 0: run the checks" example:"60"`
}

// DoctorOutput is the output of RunDoctor.
type DoctorOutput struct{ Body Diagnosis }

// Diagnosis has the results of all checks.
type Diagnosis struct {
	Findings []Finding `json:"findings" nullable:"false"`
	Checked  time.Time `json:"checked" doc:"When the checks ended"`
}

func (d Diagnosis) isNewer(seconds float64) bool { return time.Since(d.Checked).Seconds() < seconds }

func (o *operations) run(ctx context.Context, in *DoctorInput) (*DoctorOutput, error) {
	if caller := access.FromContext(ctx); caller.Limited() {
		return nil, problem.Forbidden(caller.Name+" is limited to some queues and exchanges, and findings name all", "Ask for a token without limits.")
	}
	select {
	case o.running <- struct{}{}:
		defer func() { <-o.running }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if o.latest.isNewer(in.MaxAge) {
		return &DoctorOutput{o.latest}, nil
	}
	findings := append([]Finding{}, o.diagnose(ctx)...)
	if ctx.Err() != nil {
		return nil, ctx.Err() // findings tell of that
	}
	o.latest = Diagnosis{findings, time.Now()}
	return &DoctorOutput{o.latest}, nil
}
