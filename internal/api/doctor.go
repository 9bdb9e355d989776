package api

import (
	"context"
	"net/http"
	"time"

	"github.com/watershipmq/watership/internal/access"
	"github.com/watershipmq/watership/internal/doctor"
	"github.com/watershipmq/watership/internal/problem"
)

func (a *API) registerDoctor() {
	register(a, operation{
		method: http.MethodGet, path: "/doctor", id: "runDoctor", tag: "system", role: access.Viewer, timeout: 2 * time.Minute,
		summary: "Check RabbitMQ, the store and the server",
		text:    "For callers without limits: findings name queues and logins.",
	}, a.runDoctor)
}

type doctorOutput struct{ Body Diagnosis }

// Diagnosis has the results of all checks.
type Diagnosis struct {
	Findings []Finding `json:"findings" nullable:"false"`
}

// Finding is the result of a check.
type Finding struct {
	Check   string         `json:"check"`
	Verdict doctor.Verdict `json:"verdict" enum:"ok,warning,error"`
	Detail  string         `json:"detail"`
	Remedy  string         `json:"remedy,omitempty"`
}

func (a *API) runDoctor(ctx context.Context, _ *struct{}) (*doctorOutput, error) {
	if caller := access.FromContext(ctx); caller.Limited() {
		return nil, problem.Forbidden(caller.Name+" is limited to some queues and exchanges, and findings name all", "Ask for a token without limits.")
	}
	select {
	case a.diagnosing <- struct{}{}:
		defer func() { <-a.diagnosing }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	out := &doctorOutput{Diagnosis{[]Finding{}}}
	for _, f := range a.app.Diagnose(ctx) {
		out.Body.Findings = append(out.Body.Findings, Finding(f))
	}
	return out, nil
}
