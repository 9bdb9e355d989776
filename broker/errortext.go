package broker

import "fmt"

// Names and errors as in the texts of RabbitMQ.

func (v *vhost) queueDescription(name string) string {
	return fmt.Sprintf("queue '%s' in vhost '%s'", name, v.name)
}

func (v *vhost) exchangeDescription(name string) string {
	return fmt.Sprintf("exchange '%s' in vhost '%s'", name, v.name)
}

func (q *queue) description() string { return q.vhost.queueDescription(q.name) }

func (v *vhost) queueNotFound(name string) *exception {
	return newException(notFound, "no %s", v.queueDescription(name))
}

func (v *vhost) exchangeNotFound(name string) *exception {
	return newException(notFound, "no %s", v.exchangeDescription(name))
}

func (q *queue) lockedError() *exception {
	return newException(resourceLocked, "cannot obtain exclusive access to locked %s. It could be originally "+
		"declared on another connection or the exclusive property value does not "+
		"match that of the original declaration.", q.description())
}

// inequivalent is the error of a declaration that differs from the declared object.
func inequivalent(property, of string, received, current any) *exception {
	return newException(preconditionFailed, "inequivalent arg '%s' for %s: received '%v' but current is '%v'",
		property, of, received, current)
}

// equivalentArguments compares the arguments with some names.
func equivalentArguments(current, received table, of string, names []string) *exception {
	for _, name := range names {
		have, haveIt := current.lookup(name)
		want, wantIt := received.lookup(name)
		if haveIt && wantIt && !have.equal(want) {
			return inequivalent(name, of, want, have)
		}
		if haveIt != wantIt {
			return newException(preconditionFailed, "inequivalent arg '%s' for %s: received %s but current is %s",
				name, of, argumentDescription(want, wantIt), argumentDescription(have, haveIt))
		}
	}
	return nil
}

func argumentDescription(f field, there bool) string {
	if !there {
		return "none"
	}
	return fmt.Sprintf("the value '%v' of type '%s'", f, f.typeName())
}
