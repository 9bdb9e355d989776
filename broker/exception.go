package broker

import (
	"fmt"
	"strings"
)

// Reply codes (§1.2 of the specification's generated part; RabbitMQ added none).
const (
	contentTooLarge     = 311
	noRoute             = 312
	connectionForced    = 320
	accessRefused       = 403
	notFound            = 404
	resourceLocked      = 405
	preconditionFailed  = 406
	frameErrorCode      = 501
	syntaxError         = 502
	commandInvalid      = 503
	channelError        = 504
	unexpectedFrame     = 505
	resourceError       = 506
	notAllowed          = 530
	notImplemented      = 540
	internalError       = 541
	lowestHardErrorCode = 501
)

// exception is an error of AMQP that closes the channel or the connection.
type exception struct {
	code  uint16
	text  string
	scope scope
}

// scope selects the channel or the connection.
type scope int

const (
	scopeOfCode scope = iota
	channelScope
	connectionScope
)

// reason returns the text without the name of its code.
func (e *exception) reason() string {
	return strings.TrimPrefix(e.text, codeName(e.code)+" - ")
}

func (e *exception) Error() string { return fmt.Sprintf("%d %s", e.code, e.text) }

// hard reports whether the exception closes the connection, and not only the channel
// (§4.10).
func (e *exception) hard() bool {
	if e.scope != scopeOfCode {
		return e.scope == connectionScope
	}
	return e.code >= lowestHardErrorCode || e.code == connectionForced
}

// newException returns an exception in the format of RabbitMQ: NAME - explanation.
func newException(code uint16, format string, args ...any) *exception {
	return &exception{code: code, text: codeName(code) + " - " + fmt.Sprintf(format, args...)}
}

func codeName(code uint16) string {
	switch code {
	case contentTooLarge:
		return "CONTENT_TOO_LARGE"
	case noRoute:
		return "NO_ROUTE"
	case connectionForced:
		return "CONNECTION_FORCED"
	case accessRefused:
		return "ACCESS_REFUSED"
	case notFound:
		return "NOT_FOUND"
	case resourceLocked:
		return "RESOURCE_LOCKED"
	case preconditionFailed:
		return "PRECONDITION_FAILED"
	case frameErrorCode:
		return "FRAME_ERROR"
	}
	return hardCodeName(code)
}

func hardCodeName(code uint16) string {
	switch code {
	case syntaxError:
		return "SYNTAX_ERROR"
	case commandInvalid:
		return "COMMAND_INVALID"
	case channelError:
		return "CHANNEL_ERROR"
	case unexpectedFrame:
		return "UNEXPECTED_FRAME"
	case resourceError:
		return "RESOURCE_ERROR"
	case notAllowed:
		return "NOT_ALLOWED"
	case notImplemented:
		return "NOT_IMPLEMENTED"
	}
	return "INTERNAL_ERROR"
}
