package breaker

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"

	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// Cause classifies the error of an attempt.
type Cause int

const (
	// MessageFailure is any failure that may concern this message alone.
	MessageFailure Cause = iota

	// TimedOut counts as an attempt, since a message may take too long by itself.
	// It is a sign of an outage as well.
	TimedOut

	// Unavailable: the service could not be reached, or reported that itself.
	Unavailable

	// Exhausted: this process has no file, port or buffer left for a connection.
	Exhausted

	// DecidedByHandler and ReturnedByHandler are no result of the service: the handler
	// made the message poison, chose the time of its next attempt, or nacked it.
	DecidedByHandler
	ReturnedByHandler
)

// exhaustionErrors are errors of a process that has run out of files, ports or memory.
func exhaustionErrors() []error {
	return []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL}
}

// disconnectionErrors are errors of a service that cannot be reached.
func disconnectionErrors() []error {
	return []error{
		syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE, syscall.EHOSTUNREACH,
		syscall.EHOSTDOWN, syscall.ENETUNREACH, syscall.ENETDOWN, syscall.ETIMEDOUT,
	}
}

// CauseOf classifies an error of a handler; it does not know ReturnedByHandler.
func CauseOf(err error) Cause {
	is := func(target error) bool { return errors.Is(err, target) }
	switch {
	case retry.IsPermanent(err):
		return DecidedByHandler
	case handlerSetsDelay(err) && !isUnavailable(err):
		return DecidedByHandler
	case slices.ContainsFunc(exhaustionErrors(), is):
		return Exhausted
	case isUnavailable(err), slices.ContainsFunc(disconnectionErrors(), is), isUnreached(err):
		return Unavailable
	case is(context.DeadlineExceeded), isTimeout(err):
		return TimedOut
	}
	return MessageFailure
}

// handlerSetsDelay reports whether the handler chose the time of the next attempt itself.
func handlerSetsDelay(err error) bool {
	var after *retry.AfterError
	return errors.As(err, &after) && !after.AtLeast
}

func isUnavailable(err error) bool {
	var unavailable *retry.UnavailableError
	return errors.As(err, &unavailable)
}

// isUnreached reports whether no connection could be made, or it ended without an
// answer: no address, no answer, no trust.
func isUnreached(err error) bool {
	var dns *net.DNSError
	var operation *net.OpError
	var request *url.Error
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var verification *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var hostname x509.HostnameError
	var invalid x509.CertificateInvalidError
	if errors.As(err, &operation) && slices.Contains(connectOperations(), operation.Op) {
		return true
	}
	// A client of net/http returns io.EOF for a server that closes the connection instead of
	// answering. Elsewhere io.EOF may be the end of a message's body.
	if errors.As(err, &request) && errors.Is(request, io.EOF) || errors.Is(err, http.ErrSchemeMismatch) {
		return true
	}
	return errors.As(err, &dns) || errors.As(err, &record) || errors.As(err, &alert) ||
		errors.As(err, &verification) || errors.As(err, &authority) || errors.As(err, &hostname) || errors.As(err, &invalid)
}

// connectOperations are values of net.OpError.Op: making a connection, and alerts of TLS,
// which crypto/tls sends and receives only when it refuses a connection.
func connectOperations() []string { return []string{"dial", "local error", "remote error"} }

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// outageKind returns the same text for failures that may have the same outage as cause.
func outageKind(f schemas.Failure, cause Cause) string {
	if cause == MessageFailure {
		return failureGroup(f)
	}
	return "unavailable"
}

// failureGroup returns the same text for failures that differ in ids and numbers only. An
// HTTP response is reduced to its status, since its body may contain anything.
func failureGroup(f schemas.Failure) string {
	if f.Type == statusErrorType {
		f.Message, _, _ = strings.Cut(f.Message, ": ")
		return f.Message
	}
	return fmt.Sprintf("%s of class %s: %s", f.Type, f.Class, f.ErrorGroup())
}

// statusErrorType is the result of retry.TypeOf for an HTTP response.
const statusErrorType = "*webhook.StatusError"
