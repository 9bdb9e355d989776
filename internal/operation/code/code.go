// Package code has the codes of problems. Programs decide by them, since the texts of a problem are
// for people.
package code

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

// Code is the kind of a problem of an operation.
type Code string

// The codes. Two may have the same status.
const (
	InvalidRequest    Code = "invalid_request"    // it cannot be meant
	InvalidQuery      Code = "invalid_query"      // it cannot be read, or the store refuses it
	InvalidField      Code = "invalid_field"      // of a query: it does not exist, or not for this
	NeedsReason       Code = "needs_reason"       // bodies or originals are read for a reason alone
	Unauthenticated   Code = "unauthenticated"    // there are no credentials, or none that are accepted
	Forbidden         Code = "forbidden"          // the caller may not do it
	NotFound          Code = "not_found"          // the named object does not exist
	MethodNotAllowed  Code = "method_not_allowed" // for the path
	Conflict          Code = "conflict"           // it does not fit the state of its subject
	ExpectMismatch    Code = "expect_mismatch"    // another number matches, or the change is another one
	NeedsApproval     Code = "needs_approval"     // a second person has to approve it, and it waits for that
	HasEnded          Code = "has_ended"          // of a job: there is nothing left to change
	IsRunning         Code = "is_running"         // of a job: another process runs it
	PlanRefused       Code = "plan_refused"       // the plan of a replay has a problem, whose code is problem_code
	AmbiguousID       Code = "ambiguous_id"       // several messages have it
	Unroutable        Code = "unroutable"         // no queue gets the message
	TooLarge          Code = "too_large"          // the body of the request
	UnsupportedMedia  Code = "unsupported_media_type"
	Misdirected       Code = "misdirected"          // the server does not answer for the host
	InvalidValue      Code = "invalid_value"        // errors has the members and parameters
	KeyReused         Code = "idempotency_key_used" // for another request
	Erased            Code = "erased"               // the message cannot be had any more, since the key of its subject was destroyed
	RateLimited       Code = "rate_limited"         // the caller sends too many requests
	Internal          Code = "internal"             // anything else
	BrokerRefused     Code = "broker_refused"       // the login of RabbitMQ may not do it
	StoreRefused      Code = "store_refused"        // the login of the store may not do it
	Unavailable       Code = "unavailable"          // the server cannot do it now, as while it stops or has too much to do
	BrokerUnavailable Code = "broker_unavailable"   // RabbitMQ cannot be reached
	StoreUnavailable  Code = "store_unavailable"    // the store cannot be reached, or has too much to do
	RoutesUnchecked   Code = "routes_unchecked"     // RabbitMQ cannot be asked where messages would go
	QueueFull         Code = "queue_full"           // RabbitMQ took no message for it
	TimedOut          Code = "timed_out"            // the operation took too long
)

// status is the status of the responses with a code.
type status struct {
	code   Code
	status int
}

// statuses has the general code of a status before the others.
func statuses() []status {
	return []status{
		{InvalidRequest, http.StatusBadRequest},
		{InvalidQuery, http.StatusBadRequest},
		{InvalidField, http.StatusBadRequest},
		{NeedsReason, http.StatusBadRequest},
		{Unauthenticated, http.StatusUnauthorized},
		{Forbidden, http.StatusForbidden},
		{NotFound, http.StatusNotFound},
		{MethodNotAllowed, http.StatusMethodNotAllowed},
		{Conflict, http.StatusConflict},
		{ExpectMismatch, http.StatusConflict},
		{NeedsApproval, http.StatusConflict},
		{HasEnded, http.StatusConflict},
		{IsRunning, http.StatusConflict},
		{PlanRefused, http.StatusConflict},
		{AmbiguousID, http.StatusConflict},
		{Unroutable, http.StatusConflict},
		{Erased, http.StatusGone},
		{TooLarge, http.StatusRequestEntityTooLarge},
		{UnsupportedMedia, http.StatusUnsupportedMediaType},
		{Misdirected, http.StatusMisdirectedRequest},
		{InvalidValue, http.StatusUnprocessableEntity},
		{KeyReused, http.StatusUnprocessableEntity},
		{RateLimited, http.StatusTooManyRequests},
		{Internal, http.StatusInternalServerError},
		{BrokerRefused, http.StatusBadGateway},
		{StoreRefused, http.StatusBadGateway},
		{Unavailable, http.StatusServiceUnavailable},
		{BrokerUnavailable, http.StatusServiceUnavailable},
		{StoreUnavailable, http.StatusServiceUnavailable},
		{RoutesUnchecked, http.StatusServiceUnavailable},
		{QueueFull, http.StatusServiceUnavailable},
		{TimedOut, http.StatusGatewayTimeout},
	}
}

// All returns all codes.
func All() []Code {
	var all []Code
	for _, s := range statuses() {
		all = append(all, s.code)
	}
	return all
}

// Status returns the status of responses with the code.
func (c Code) Status() int {
	for _, s := range statuses() {
		if s.code == c {
			return s.status
		}
	}
	return http.StatusInternalServerError
}

// Of returns the general code of a status.
func Of(of int) Code {
	for _, s := range statuses() {
		if s.status == of {
			return s.code
		}
	}
	if of >= http.StatusInternalServerError {
		return Internal
	}
	return InvalidRequest
}

// Schema implements huma.SchemaProvider: the codes are an enum.
func (Code) Schema(huma.Registry) *huma.Schema {
	enum := []any{}
	for _, c := range All() {
		enum = append(enum, string(c))
	}
	return &huma.Schema{Type: huma.TypeString, Enum: enum, Description: "Kind of the problem, which stays the same in later releases"}
}
