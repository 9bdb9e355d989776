package simulation

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/schemas"
)

// usersPattern matches all exchanges and queues but RabbitMQ's.
const usersPattern = `^(?!amq\.).*`

// policies returns the policies of a profile.
func policies(ttl, limit int) []rabbit.Policy {
	length := 1_000_000
	return []rabbit.Policy{
		{Name: "exchanges", Pattern: usersPattern, ApplyTo: "exchanges", Definition: map[string]any{"alternate-exchange": unrouted}},
		{Name: "classic", Pattern: usersPattern, ApplyTo: "classic_queues", Definition: map[string]any{"message-ttl": ttl, "max-length": length}},
		{Name: "quorum", Pattern: usersPattern, ApplyTo: "quorum_queues", Definition: map[string]any{"message-ttl": ttl, "max-length": length, "delivery-limit": limit}},
	}
}

// policyMaker returns a client of the management API.
func (u users) policyMaker() (*rabbit.Management, error) {
	w := u.world
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(_ context.Context, _, address string) (net.Conn, error) {
		return w.network.dial("users", address)
	}}
	return rabbit.NewManagement(managementURL, &http.Client{Transport: transport})
}

func (u users) savePolicies(ctx context.Context, all ...rabbit.Policy) error {
	management, err := u.policyMaker()
	if err != nil {
		return err
	}
	for _, p := range all {
		if err := management.SavePolicy(ctx, "/", p); err != nil {
			return err
		}
	}
	return nil
}

func (u users) deletePolicy(ctx context.Context, name string) error {
	management, err := u.policyMaker()
	if err != nil {
		return err
	}
	return management.DeletePolicy(ctx, "/", name)
}

// changePolicies changes the policies as operators do who know Watership: no message is dropped.
func (u users) changePolicies(choice int) {
	w := u.world
	ctx := context.Background()
	var err error
	switch {
	case choice%2 == 0 && w.profile.Policies:
		err = u.savePolicies(ctx, policies(1_800_000, 30)...)
	case choice%4 == 1 && w.profile.Policies:
		err = u.deletePolicy(ctx, "exchanges")
	default: // for queues without another policy
		err = u.savePolicies(ctx, rabbit.Policy{Name: "later", Pattern: usersPattern, ApplyTo: "queues", Priority: -1, Definition: map[string]any{"message-ttl": 3_600_000}})
	}
	w.note("users", fmt.Sprintf("have changed the policies: %v", err)) // the broker may be stopped
}

// fillQueues lets queues refuse messages for a time, as full ones do. The queues that get dead letters of others do not:
// dead letters that they refuse are lost.
func (u users) fillQueues(f Fault) {
	w := u.world
	ctx, own := context.Background(), schemas.Topology{}
	began := time.Now()
	w.oracle.losses.losesCopies()
	err := u.savePolicies(ctx, rabbit.Policy{
		Name: "full", Pattern: fmt.Sprintf(`^(?!amq\.|%s$|%s$|%s$|%s$).*`, own.Due(), own.Retry(), foreignQueue, unrouted), ApplyTo: "queues", Priority: 9,
		Definition: map[string]any{"max-length": f.Choice % 4, "overflow": "reject-publish"},
	})
	w.note("users", fmt.Sprintf("have filled the queues: %v", err))
	if err != nil {
		return
	}
	time.Sleep(f.For)
	for {
		if err = u.deletePolicy(ctx, "full"); err == nil || errors.Is(err, rabbit.ErrNotFound) {
			break
		}
		time.Sleep(time.Second)
	}
	w.note("users", "queues have room again")
	w.oracle.losses.refused(began, time.Now())
}

// refused says that queues refused messages for a time. Of a message that was not confirmed, some queues may have a copy,
// and others none.
func (l *losses) refused(from, to time.Time) {
	o := l.oracle
	o.mu.Lock()
	defer o.mu.Unlock()
	o.faults.add(span{from: from, to: to})
	for _, id := range o.sent {
		if m := o.messages[id]; !m.confirmed && m.arrivesIn(from, to) {
			l.messages[id], l.copies[id] = true, true
		}
	}
	displace(o)
}
