package client

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/httpapi"
	"github.com/watershipmq/watership/internal/operation/code"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/system"
)

// Error is the failure of a request. It counts as an error of the whole store
// (*eventstore.Error), and as an InputError if the request was a mistake.
type Error struct {
	Status int // of the response; 0: there was no response
	Done   int // number of those that were changed or published before the error

	retryAfter time.Duration
	refused    *problem.Problem // by the API, so that the result is known; nil: it has not answered
	text       string           // with the remedy on its own lines
	err        error            // the cause; nil: the server refused the request
}

// Error implements error.
func (e *Error) Error() string { return e.text }

// Unwrap returns the errors that it counts as.
func (e *Error) Unwrap() []error {
	store := &eventstore.Error{Kind: eventstore.BadRequest, Reason: e.text}
	if e.away() {
		store.Kind = eventstore.Unavailable
	}
	all := []error{store}
	if e.err != nil {
		all = append(all, e.err)
	}
	if e.refused != nil {
		all = append(all, e.refused)
	}
	if e.Status == http.StatusBadRequest || e.Status == http.StatusUnprocessableEntity {
		all = append(all, system.InputError{Err: errors.New(e.text)})
	}
	return all
}

// IsLost reports whether the effect of the request is unknown, because the server has not answered.
func (e *Error) IsLost() bool { return e.refused == nil && e.away() }

// away reports whether the server may answer later.
func (e *Error) away() bool {
	switch e.Status {
	case 0, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusTooManyRequests:
		return true
	}
	return false
}

func (c connection) errorf(format string, args ...any) *Error {
	return &Error{Status: http.StatusNotImplemented, text: "server " + c.Address() + ": " + fmt.Sprintf(format, args...)}
}

// away returns the error of a request without a response, or of one that was cut off.
func (c connection) away(ctx context.Context, err error) error {
	e := &Error{err: err}
	var request *url.Error
	if errors.As(err, &request) { // which has the whole address, with the query
		err = request.Err
	}
	var redirect *redirectError
	var untrusted *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	remedy := "check --server, and that watership serve runs there with http.listen"
	switch {
	case ctx.Err() != nil:
		err, e.err = context.Cause(ctx), ctx.Err()
	case errors.As(err, &redirect):
		e.Status, remedy = http.StatusMisdirectedRequest, ""
	case errors.As(err, &untrusted):
		e.Status, remedy = http.StatusMisdirectedRequest, "name its certificate authorities with --server-ca"
	case errors.As(err, &record), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		e.Status, remedy = http.StatusMisdirectedRequest, "it has no TLS: use http://, or configure http.tls there"
	}
	e.text = fmt.Sprintf("server %s cannot be reached: %v", c.Address(), err)
	if e.Status != 0 {
		e.text = fmt.Sprintf("server %s: %v", c.Address(), err)
	}
	if remedy != "" {
		e.text += "\n" + remedy
	}
	return e
}

// maxProblem bounds the body of a refusal.
const maxProblem = 1 << 20

// refusal returns the error of a response that is no success.
func (c connection) refusal(response *http.Response) error {
	var p problem.Problem
	body, err := io.ReadAll(io.LimitReader(response.Body, maxProblem))
	if err != nil || !isType(response, "application/problem+json") || json.Unmarshal(body, &p) != nil || p.Detail == "" {
		return c.notWatership(response)
	}
	p.Status = response.StatusCode
	refused := c.problem(p)
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil {
		refused.retryAfter = time.Duration(min(max(seconds, 0), 60)) * time.Second
	}
	return refused
}

// problem returns the error of a problem.
func (c connection) problem(p problem.Problem) *Error {
	remedy := p.Remedy
	switch {
	case p.Status == http.StatusUnauthorized && c.token == "":
		remedy = "Name the file with your token: --token-file FILE."
	case p.Status == http.StatusUnauthorized:
		remedy = "Ask an administrator for a new token (watership token create), and write it into the file of --token-file."
	case p.Code == code.NeedsReason:
		remedy = "Say why: --server-reason TEXT, or server_reason."
	case remedy != "":
	case p.Status == http.StatusForbidden:
		remedy = "Ask an administrator for a token that may do this."
	case p.Status == http.StatusTooManyRequests:
		remedy = "Send the request again later."
	}
	text := p.Text(remedy)
	if c.token != "" { // a proxy may repeat the headers of a request
		text = strings.ReplaceAll(text, c.token, "TOKEN")
	}
	return &Error{Status: p.Status, Done: p.Done, text: text, refused: &p}
}

// notWatership returns the error of a response that the API did not write.
func (c connection) notWatership(response *http.Response) error {
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if kind == "" {
		kind = "nothing"
	}
	text := fmt.Sprintf("server %s answered %s with %s, which is not the API of Watership\n", c.Address(), response.Status, kind)
	switch response.StatusCode {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		text += "a proxy answers in its place: check that watership serve runs behind it"
	default:
		text += "check --server: the address of http.listen, or of a proxy that passes " + httpapi.Prefix + " on"
	}
	return &Error{Status: max(response.StatusCode, http.StatusMultipleChoices), text: text}
}

func isType(response *http.Response, want string) bool {
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	return kind == want
}
