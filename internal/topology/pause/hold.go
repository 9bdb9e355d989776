package pause

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/schemas"
)

// A held key is a binding, as a paused route is, with a digest of queue and key as its routing key. Another binding says
// that a route may have held keys, so that processes ask about keys of such routes alone; it stays.

// Keys are the keys of a route in this process.
type Keys interface {
	// SetHolding says whether keys of the route may be held. Until then any may be.
	SetHolding(holding bool)

	// Unknown returns the keys about which it has to be known whether they are held; with all, also those about
	// which it was known.
	Unknown(all bool) []string

	// SetHeld says whether a key is held.
	SetHeld(key string, held bool)
}

// holdKey returns the routing key of the binding that holds a key of the route of a queue; "": the one of the route.
func holdKey(t schemas.Topology, queue, key string) string {
	sum := sha256.Sum256([]byte(queue + "\n" + key))
	return t.Paused() + "." + hex.EncodeToString(sum[:])
}

// Held asks RabbitMQ whether an operator holds a key of the route of a queue.
func Held(ctx context.Context, by Publisher, t schemas.Topology, queue, key string) (bool, error) {
	return routed(ctx, by, t, holdKey(t, queue, key))
}

// Hold holds a key of the route of a queue in every process. One that is held stays so.
func (c Control) Hold(ctx context.Context, queue, key, why string) error {
	err := c.Connection.Do(ctx, func(ch *amqp.Channel) error {
		bind := func(key string) error {
			return ch.QueueBind(c.Topology.Paused(), holdKey(c.Topology, queue, key), c.Topology.Pauses(), false, nil)
		}
		return errors.Join(bind(""), bind(key))
	})
	if err != nil {
		return c.withRemedy(err, "holding a receiver of", queue)
	}
	return c.record(ctx, schemas.Paused, queue, key, why)
}

// Release ends the hold of a key. One that is not held goes on.
func (c Control) Release(ctx context.Context, queue, key, why string) error {
	err := c.Connection.Do(ctx, func(ch *amqp.Channel) error {
		return ch.QueueUnbind(c.Topology.Paused(), holdKey(c.Topology, queue, key), c.Topology.Pauses(), nil)
	})
	if err != nil {
		return c.withRemedy(err, "releasing a receiver of", queue)
	}
	return c.record(ctx, schemas.Resumed, queue, key, why)
}

// SetKeys has the watcher ask about keys of the route of a queue; nil ends that.
func (w *Watcher) SetKeys(queue string, keys Keys) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if keys == nil {
		delete(w.keys, queue)
		return
	}
	if w.keys == nil {
		w.keys = map[string]Keys{}
	}
	w.keys[queue] = keys
}

// maxQuestions bounds the questions about keys that are asked at once.
const maxQuestions = 64

// checkKeys asks about the keys of a route. Without an answer they stay as they are, and keys about which RabbitMQ has never
// answered wait. A login that may not ask handles them.
func (w *Watcher) checkKeys(ctx context.Context, queue string, keys Keys, all bool) error {
	err := w.askAboutKeys(ctx, queue, keys, all)
	if refused := (*rabbit.RefusedError)(nil); errors.As(err, &refused) {
		keys.SetHolding(false)
	}
	return err
}

func (w *Watcher) askAboutKeys(ctx context.Context, queue string, keys Keys, all bool) error {
	if all {
		holding, err := Held(ctx, w.Publisher, w.Topology, queue, "")
		if err != nil {
			return err
		}
		keys.SetHolding(holding)
	}
	var asking sync.WaitGroup
	var mu sync.Mutex // guards failed
	var failed error
	slots := make(chan struct{}, maxQuestions)
	for _, key := range keys.Unknown(all) {
		slots <- struct{}{}
		asking.Go(func() {
			defer func() { <-slots }()
			held, err := Held(ctx, w.Publisher, w.Topology, queue, key)
			if err == nil {
				keys.SetHeld(key, held)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			failed = err
		})
	}
	asking.Wait()
	return failed
}

// routed asks RabbitMQ whether a message with a routing key reaches the queue of pauses.
func routed(ctx context.Context, by Publisher, t schemas.Topology, key string) (bool, error) {
	err := by.Publish(ctx, rabbit.Message{
		Exchange: t.Pauses(), RoutingKey: key, Publishing: amqp.Publishing{DeliveryMode: amqp.Transient},
	})
	var returned *rabbit.UnroutableError
	if errors.As(err, &returned) {
		return false, nil
	}
	return err == nil, err
}
