package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/watershipmq/watership/internal/operate/doctor"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/server"
)

func (a *API) registerDoctor() {
	register(a, operation.Operation{
		Method: http.MethodGet, Path: "/doctor", ID: "runDoctor", Tag: "system", Role: access.Viewer, Timeout: 2 * time.Minute,
		Summary: "Check RabbitMQ, the store and the server",
		Text:    "For callers without limits: findings name queues and logins.",
	}, a.runDoctor)
}

type doctorInput struct {
	MaxAge float64 `query:"max_age_seconds" minimum:"0" maximum:"86400" doc:"Return earlier results that are not older; 0: run the checks" example:"60"`
}

type doctorOutput struct{ Body Diagnosis }

// Diagnosis has the results of all checks.
type Diagnosis struct {
	Findings []Finding `json:"findings" nullable:"false"`
	Checked  time.Time `json:"checked" doc:"When the checks ended"`
}

func (d Diagnosis) isNewer(seconds float64) bool { return time.Since(d.Checked).Seconds() < seconds }

// Finding is the result of a check.
type Finding struct {
	Check   string         `json:"check"`
	Verdict doctor.Verdict `json:"verdict" enum:"ok,warning,error"`
	Detail  string         `json:"detail"`
	Since   *time.Time     `json:"since,omitempty" doc:"When it began, if that is known"`
	Remedy  string         `json:"remedy,omitempty"`
}

func (a *API) runDoctor(ctx context.Context, in *doctorInput) (*doctorOutput, error) {
	if caller := access.FromContext(ctx); caller.Limited() {
		return nil, problem.Forbidden(caller.Name+" is limited to some queues and exchanges, and findings name all", "Ask for a token without limits.")
	}
	select {
	case a.diagnosing <- struct{}{}:
		defer func() { <-a.diagnosing }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if a.diagnosis.isNewer(in.MaxAge) {
		return &doctorOutput{a.diagnosis}, nil
	}
	findings := []Finding{}
	for _, f := range server.Diagnose(ctx, a.System, a.handlers()) {
		findings = append(findings, Finding(f))
	}
	if ctx.Err() != nil {
		return nil, ctx.Err() // findings tell of that
	}
	a.diagnosis = Diagnosis{findings, time.Now()}
	return &doctorOutput{a.diagnosis}, nil
}
