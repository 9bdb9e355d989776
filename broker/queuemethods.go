package broker

import (
	"encoding/binary"
	"slices"
	"strings"
)

// declaration are the arguments of queue.declare (§1.7.2.1).
type declaration struct {
	name       string
	flags      bits // passive, durable, exclusive, auto-delete, no-wait
	arguments  table
	durable    bool
	exclusive  bool
	autoDelete bool
}

func (ch *channel) queueDeclare(args *decoder) (err *exception) {
	args.short()
	d := declaration{name: args.shortstr(), flags: args.bits()}
	if d.arguments, err = args.arguments(); err != nil {
		return err
	}
	d.exclusive, d.autoDelete = d.flags.at(2), d.flags.at(3)
	d.durable = d.flags.at(1) && !d.exclusive
	ch.vhost.lock()
	defer ch.vhost.unlock()
	if isReplyName(d.name) {
		return ch.declareReplies(d)
	}
	q, err := ch.declared(d)
	if err != nil {
		return err
	}
	q.touch()
	q.updateDeadline()
	ch.answerDeclare(d, q.name, q.ready.len(), q.declaredConsumers())
	return nil
}

// declareReplies responds as if a queue with the name of a reply address existed.
func (ch *channel) declareReplies(d declaration) *exception {
	if !ch.vhost.isReplyAddress(d.name) {
		return ch.vhost.queueNotFound(d.name)
	}
	ch.answerDeclare(d, d.name, 0, 1)
	return nil
}

func (ch *channel) answerDeclare(d declaration, name string, messages, consumers int) {
	ch.lastQueue = name
	if d.flags.at(4) {
		return
	}
	ch.reply(queueDeclareOK, func(b []byte) []byte {
		b = binary.BigEndian.AppendUint32(appendShortstr(b, name), uint32(messages))
		return binary.BigEndian.AppendUint32(b, uint32(consumers))
	})
}

// declared returns the queue, and creates it where it does not exist.
func (ch *channel) declared(d declaration) (*queue, *exception) {
	q, there := ch.vhost.queues[d.name]
	switch {
	case d.flags.at(0) && !there:
		return nil, ch.vhost.queueNotFound(d.name)
	case d.flags.at(0):
		return q, ch.mayUse(q)
	case there:
		return q, ch.assertEquivalent(q, d)
	case strings.HasPrefix(d.name, "amq."):
		return nil, newException(accessRefused, "queue name '%s' contains reserved prefix 'amq.*'", d.name)
	case len(ch.vhost.queues) >= ch.vhost.limits.Queues:
		return nil, newException(preconditionFailed, "cannot declare %s: queue limit in vhost '%s' (%d) is reached",
			ch.vhost.queueDescription(d.name), ch.vhost.name, ch.vhost.limits.Queues)
	}
	return ch.create(d)
}

func (ch *channel) create(d declaration) (*queue, *exception) {
	serverNamed := d.name == ""
	if serverNamed {
		d.name = generatedName("amq.gen")
	}
	words := ch.vhost.queueDescription(d.name)
	s, err := parseSettings(d.arguments, words, ch.vhost.rabbitmq)
	switch {
	case err == nil && s.quorum && serverNamed:
		err = newException(preconditionFailed, "Cannot declare a server-named queue for type rabbit_quorum_queue")
	case err == nil && s.quorum:
		err = d.fitsQuorum(words)
	}
	if err != nil {
		return nil, err
	}
	q := newQueue(ch.vhost, d.name, s, d.arguments)
	q.durable, q.autoDelete = d.durable, d.autoDelete
	if d.exclusive {
		q.owner = ch.conn
	}
	if err := ch.vhost.reserveTopology(q.bytes()); err != nil {
		return nil, err
	}
	ch.vhost.queues[q.name] = q
	q.applyPolicy()
	return q, nil
}

func (d declaration) fitsQuorum(words string) *exception {
	switch {
	case d.exclusive:
		return newException(preconditionFailed, "invalid property 'exclusive-owner' for %s", words)
	case !d.durable:
		return newException(preconditionFailed, "invalid property 'non-durable' for %s", words)
	case d.autoDelete:
		return newException(preconditionFailed, "invalid property 'auto-delete' for %s", words)
	}
	return nil
}

// assertEquivalent returns an error where a declaration differs from the existing
// queue.
func (ch *channel) assertEquivalent(q *queue, d declaration) *exception {
	exclusive := q.owner != nil
	switch {
	case exclusive && q.owner != ch.conn, exclusive != d.exclusive:
		return q.lockedError()
	case q.durable != d.durable:
		return inequivalent("durable", q.description(), d.durable, q.durable)
	case q.autoDelete != d.autoDelete:
		return inequivalent("auto_delete", q.description(), d.autoDelete, q.autoDelete)
	}
	return equivalentArguments(explicitType(q.args), explicitType(d.arguments), q.description(), q.settings.comparedArguments(ch.vhost.rabbitmq))
}

// explicitType adds x-queue-type where it is missing.
func explicitType(args table) table {
	if _, there := args.lookup("x-queue-type"); there {
		return args
	}
	return slices.Clip(args).withText("x-queue-type", "classic")
}

// comparedArguments returns the arguments that the type of the queue supports.
func (s settings) comparedArguments(r Release) (names []string) {
	for _, a := range queueArguments(r) {
		if a.fits(s.quorum) {
			names = append(names, a.name)
		}
	}
	return names
}

func (ch *channel) queueDelete(args *decoder) *exception {
	args.short()
	name, flags := args.shortstr(), args.bits()
	if args.bad {
		return truncatedArguments()
	}
	ch.vhost.lock()
	defer ch.vhost.unlock()
	name, err := ch.queueName(name)
	if err != nil {
		return err
	}
	deleted := 0
	if q, there := ch.vhost.queues[name]; there { // a missing queue is no error
		if deleted, err = ch.deleteIf(q, flags.at(0), flags.at(1)); err != nil {
			return err
		}
	}
	ch.replyCount(queueDeleteOK, deleted, flags.at(2))
	return nil
}

func (ch *channel) deleteIf(q *queue, unused, empty bool) (messages int, err *exception) {
	if err := ch.mayUse(q); err != nil {
		return 0, err
	}
	switch {
	case unused && q.settings.quorum:
		return 0, flagNotSupported(q, "if-unused")
	case empty && q.settings.quorum:
		return 0, flagNotSupported(q, "if-empty")
	case unused && len(q.consumers) > 0:
		return 0, newException(preconditionFailed, "%s in use", q.description())
	case empty && q.ready.len() > 0:
		return 0, newException(preconditionFailed, "%s not empty", q.description())
	}
	return q.delete(), nil
}

func flagNotSupported(q *queue, flag string) *exception {
	return newException(notImplemented, "cannot delete %s. queue.delete operations with %s flag set are not supported by quorum queues",
		q.description(), flag)
}

func (ch *channel) queuePurge(args *decoder) *exception {
	args.short()
	name, flags := args.shortstr(), args.bits()
	if args.bad {
		return truncatedArguments()
	}
	ch.vhost.lock()
	defer ch.vhost.unlock()
	q, err := ch.usableQueue(name)
	if err == nil {
		ch.replyCount(queuePurgeOK, q.purge(), flags.at(0))
	}
	return err
}

func (ch *channel) replyCount(id methodID, n int, noWait bool) {
	if !noWait {
		ch.reply(id, func(b []byte) []byte { return binary.BigEndian.AppendUint32(b, uint32(n)) })
	}
}
