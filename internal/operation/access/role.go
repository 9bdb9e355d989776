package access

import (
	"fmt"
	"strings"
)

// Role is a set of permissions. Each role includes the lower ones; 0: no role.
type Role int8

// The roles, the lowest first.
const (
	Viewer   Role = iota + 1 // reads
	Operator                 // replays, discards and pauses, too
	Admin                    // changes what concerns all queues, too
)

// roleNames are the names of the roles, the lowest first.
func roleNames() []string { return []string{"viewer", "operator", "admin"} }

// ParseRole returns the role with a name.
func ParseRole(name string) (Role, error) {
	for i, known := range roleNames() {
		if name == known {
			return Role(i + 1), nil
		}
	}
	return 0, fmt.Errorf("expected one of the roles %s", strings.Join(roleNames(), ", "))
}

// String returns the name of the role.
func (r Role) String() string {
	if r < Viewer || r > Admin {
		return "none"
	}
	return roleNames()[r-1]
}

// MarshalText implements encoding.TextMarshaler.
func (r Role) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Role) UnmarshalText(text []byte) (err error) {
	*r, err = ParseRole(string(text))
	return err
}
