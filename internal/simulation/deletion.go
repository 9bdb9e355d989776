package simulation

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"time"

	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// deletion is the deletion of a queue, with the messages of the queue at that moment.
type deletion struct {
	queue    string
	at       time.Time
	restored time.Time       // the queue has its bindings again; until then messages pass it by
	held     map[string]bool // ids of messages, and of the messages of events and copies; "" for others
}

// users are those who operate the broker.
type users struct{ world *world }

// deleteQueue deletes one of the queues of routes and of Watership, and returns when it is restored.
func (u users) deleteQueue(choice int) {
	w := u.world
	names := u.deletable()
	queue := names[choice%len(names)]
	before := u.bindingsOf(queue)
	for since := time.Now(); len(before) == 0 && time.Since(since) < longestRestoration; before = u.bindingsOf(queue) {
		time.Sleep(time.Second) // the broker is stopped
	}
	bodies, deleted := w.broker.DeleteQueue("/", queue)
	if !deleted {
		return
	}
	d := &deletion{queue: queue, at: time.Now(), held: map[string]bool{}}
	for _, body := range bodies {
		d.held[string(body)] = true
	}
	w.note("fault", fmt.Sprintf("queue %s is deleted with %q", queue, slices.Sorted(maps.Keys(d.held))))
	w.oracle.losses.deletes(d)
	for since := d.at; !isOnDemand(queue) && !slices.Equal(u.bindingsOf(queue), before); time.Sleep(50 * time.Millisecond) {
		if time.Since(since) > longestRestoration {
			w.fail("queue %s was deleted, and has bindings %v after %s, and had %v", queue, u.bindingsOf(queue), longestRestoration, before)
			break
		}
	}
	w.note("fault", fmt.Sprintf("queue %s is restored", queue))
	w.oracle.losses.restores(d)
}

// isOnDemand reports whether a queue is declared when a message needs it: a delay queue that no policy names.
func isOnDemand(queue string) bool {
	delays := wire.DelaysOf(schemas.Topology{})
	return delays.Has(queue) && !slices.Contains(policy().Delays, delays.Of(queue))
}

// longestRestoration is how long a queue may be missing while processes of Watership run and are reached.
const longestRestoration = 3 * time.Minute

// deletable returns the queues that an operator may delete by mistake.
func (u users) deletable() (names []string) {
	w := u.world
	own := schemas.Topology{}
	for name := range w.broker.QueueLengths("/") {
		switch {
		case name == plainQueue, name == orderedQueue, name == foreignQueue, name == own.Places(orderedQueue),
			wire.DelaysOf(own).Has(name), slices.Contains(own.Queues(), name):
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// bindingsOf returns the bindings of a queue, each with its exchange and its key.
func (u users) bindingsOf(queue string) (all []string) {
	w := u.world
	defer func() { _ = recover() }() // the broker is stopped
	answer := httptest.NewRecorder()
	request := httptest.NewRequest(http.MethodGet, "/api/queues/%2F/"+url.PathEscape(queue)+"/bindings", nil)
	request.SetBasicAuth("guest", "guest")
	w.broker.Management().ServeHTTP(answer, request)
	var bindings []struct {
		Source string `json:"source"`
		Key    string `json:"routing_key"`
	}
	if answer.Code != http.StatusOK || json.Unmarshal(answer.Body.Bytes(), &bindings) != nil {
		return nil
	}
	for _, b := range bindings {
		all = append(all, b.Source+" "+b.Key)
	}
	slices.Sort(all)
	return all
}
