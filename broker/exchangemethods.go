package broker

import (
	"bytes"
	"strings"
)

// arguments reads and copies the table at the end of the arguments of a method.
func (d *decoder) arguments() (table, *exception) {
	t := d.table()
	if d.bad {
		return nil, truncatedArguments()
	}
	return bytes.Clone(t), t.validate()
}

func (ch *channel) exchangeDeclare(args *decoder) *exception {
	args.short()
	name, kind, flags := args.shortstr(), args.shortstr(), args.bits()
	arguments, err := args.arguments()
	if err != nil {
		return err
	}
	x := newExchange(name, kind, arguments)
	x.durable, x.autoDelete, x.internal = flags.at(1), flags.at(2), flags.at(3)
	ch.vhost.lock()
	defer ch.vhost.unlock()
	if flags.at(0) {
		err = ch.vhost.existingExchange(name)
	} else {
		err = ch.vhost.declareExchange(x)
	}
	if err == nil && !flags.at(4) {
		ch.reply(exchangeDeclareOK, nil)
	}
	return err
}

func (v *vhost) existingExchange(name string) *exception {
	if name == "" {
		return defaultExchangeRefused()
	}
	if _, there := v.exchanges[name]; !there {
		return v.exchangeNotFound(name)
	}
	return nil
}

func defaultExchangeRefused() *exception {
	return newException(accessRefused, "operation not permitted on the default exchange")
}

func (v *vhost) declareExchange(x *exchange) *exception {
	switch existing, there := v.exchanges[x.name]; {
	case x.kind == "":
		return newException(preconditionFailed, "invalid exchange type ''")
	case x.matcher == nil:
		return newException(preconditionFailed, "unknown exchange type '%s'", x.kind)
	case x.name == "":
		return defaultExchangeRefused()
	case there:
		return existing.assertEquivalent(x, v.exchangeDescription(x.name))
	case strings.HasPrefix(x.name, "amq."):
		return newException(accessRefused, "exchange name '%s' contains reserved prefix 'amq.*'", x.name)
	case len(v.exchanges) >= v.limits.Exchanges:
		return newException(resourceError, "exchange limit in vhost '%s' (%d) is reached", v.name, v.limits.Exchanges)
	}
	if f, there := x.args.lookup(alternateExchange); there {
		if _, isText := f.text(); !isText {
			return newException(preconditionFailed, "invalid type '%s' for arg 'alternate-exchange' in %s", f.typeName(), v.exchangeDescription(x.name))
		}
	}
	if x.kind == consistentHash {
		if err := validHashArguments(x.args); err != nil {
			return err
		}
	}
	if err := v.reserveTopology(x.bytes()); err != nil {
		return err
	}
	v.exchanges[x.name] = x
	x.applyPolicy(v)
	return nil
}

func (x *exchange) assertEquivalent(other *exchange, words string) *exception {
	switch {
	case x.kind != other.kind:
		return inequivalent("type", words, other.kind, x.kind)
	case x.durable != other.durable:
		return inequivalent("durable", words, other.durable, x.durable)
	case x.autoDelete != other.autoDelete:
		return inequivalent("auto_delete", words, other.autoDelete, x.autoDelete)
	case x.internal != other.internal:
		return inequivalent("internal", words, other.internal, x.internal)
	}
	return equivalentArguments(x.args, other.args, words, []string{"alternate-exchange"})
}

func (ch *channel) exchangeDelete(args *decoder) *exception {
	args.short()
	name, flags := args.shortstr(), args.bits()
	if args.bad {
		return truncatedArguments()
	}
	ch.vhost.lock()
	defer ch.vhost.unlock()
	if err := ch.vhost.deleteExchangeIf(name, flags.at(0)); err != nil {
		return err
	}
	if !flags.at(1) {
		ch.reply(exchangeDeleteOK, nil)
	}
	return nil
}

// deleteExchangeIf deletes an exchange; with unused, only without bindings. A missing
// exchange is no error.
func (v *vhost) deleteExchangeIf(name string, unused bool) *exception {
	x, there := v.exchanges[name]
	switch {
	case name == "":
		return defaultExchangeRefused()
	case strings.HasPrefix(name, "amq."):
		return newException(accessRefused, "deletion of system %s not allowed", v.exchangeDescription(name))
	case there && unused && len(x.bindings) > 0:
		return newException(preconditionFailed, "%s in use", v.exchangeDescription(name))
	case there:
		v.deleteExchange(x)
	}
	return nil
}
