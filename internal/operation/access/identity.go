// Package access decides who may use the HTTP server: it authenticates each request,
// refuses those that are not allowed, and records actions.
package access

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/watershipmq/watership/eventstore/kql"
)

// Identity is a person or a program that sends a request. The zero value may do nothing.
type Identity struct {
	Name   string
	Method Method
	Role   Role

	// Bodies is whether it may read the bodies of messages. Handlers ask ReadBodies,
	// which also records the access.
	Bodies bool

	// BodyReasons is whether it reads and searches bodies for a reason alone, see GiveReason.
	BodyReasons bool

	// Originals is whether it may read the originals of redacted messages. Handlers ask
	// ReadOriginals. The body of an original needs Bodies, too.
	Originals bool

	// Queues and Exchanges are patterns such as orders.*, in which * is any text. If
	// both are empty, there is no limit; if only one is, its patterns match nothing.
	Queues, Exchanges []string

	// Address is the address that the request came from.
	Address netip.Addr

	// Client is the program that calls for the identity, such as an agent, as it names itself; "": unknown.
	Client string
}

// Method is how an identity was authenticated. Names of different methods may be equal.
type Method string

// The methods.
const (
	ByLoopback Method = "loopback" // the request came from this machine; everybody there may do everything
	ByToken    Method = "token"
	ByOIDC     Method = "oidc"

	// ByLogins is the method of a command, which has the logins of the servers.
	ByLogins Method = "logins"
)

// HiddenProgram stands for a program that a caller without Bodies may not read, since programs may quote bodies. It is no
// program.
const HiddenProgram = "hidden, since the caller may not read bodies"

// AsOperator returns the identity of the person who runs a command with the logins of the servers, and
// so may do everything. What it reads of bodies is not recorded, as it could read the store itself; what it
// reads of originals is.
func AsOperator(name string) Identity {
	return Identity{Name: name, Method: ByLogins, Role: Admin, Bodies: true, Originals: true}
}

// May reports whether the identity has a role, or a higher one.
func (i Identity) May(r Role) bool { return r != 0 && i.Role >= r }

// Limited reports whether the identity may use only some queues and exchanges.
func (i Identity) Limited() bool { return len(i.Queues) > 0 || len(i.Exchanges) > 0 }

// Permissions is a text that differs if identities may do different things.
func (i Identity) Permissions() string {
	return fmt.Sprintf("%s %t %t %t %q %q", i.Role, i.Bodies, i.BodyReasons, i.Originals, i.Queues, i.Exchanges)
}

// MayQueue reports whether the identity may see the events of a queue and, if its role
// allows actions, act on them.
func (i Identity) MayQueue(name string) bool { return i.mayUse(i.Queues, name) }

// MayExchange reports whether the identity may see the messages of an exchange and, if
// its role allows actions, publish to it. The name of the default exchange is "".
func (i Identity) MayExchange(name string) bool { return i.mayUse(i.Exchanges, name) }

func (i Identity) mayUse(patterns []string, name string) bool {
	return i.Role != 0 && (!i.Limited() || slices.ContainsFunc(patterns, func(p string) bool { return pattern(p).Match(name) }))
}

func pattern(text string) kql.Pattern { return strings.Split(text, "*") }

// identityKey is the key of an Identity in a context.
type identityKey struct{}

// NewContext returns a context with the identity of a request.
func NewContext(ctx context.Context, i Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, i)
}

// FromContext returns the identity of a request. Without one, it returns the zero
// Identity, which may do nothing.
func FromContext(ctx context.Context) Identity {
	i, _ := ctx.Value(identityKey{}).(Identity)
	return i
}
