package replayer_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/topology"
	"github.com/watershipmq/watership/rabbitmq"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/replayer/transform"
	"github.com/watershipmq/watership/schemas"
)

func TestMain(m *testing.M) {
	transform.ServeProcess(signal.Ignore)
	os.Exit(rabbittest.WithoutLeaks(func() int { return rabbittest.WithExamples(m) }))
}

// noJobs is a store without jobs.
type noJobs struct{ jobs }

type jobs = replayer.Jobs

func (noJobs) Job(context.Context, string) ([]byte, string, error) { return nil, "", nil }

// An order that failed is sent to its exchange again.
func ExampleNew() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	store, err := failedOrder(ctx, filepath.Join(dir, "events.db"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	r := replayer.New(replayer.Config{Connection: rabbitmq.Connection{URL: os.Getenv("AMQP_URL")}, UncheckedRoutes: true, Store: store, Jobs: store})
	plan, err := r.Plan(ctx, replayer.Job{
		Query: "event.action: poisoned", Target: replayer.Target{Kind: replayer.ToOrigin}, Operator: "ada",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(plan.Matched, plan.Routes[0])
	job, err := r.Create(ctx, plan)
	if err == nil {
		job, err = r.Run(ctx, job.ID, replayer.RunOptions{})
	}
	fmt.Println(job.State, job.Sent, err)
	// Output:
	// 1 exchange "shop", routing key "order.created"
	// done 1 <nil>
}

// failedOrder returns a store with the event of a message that was given up, and declares
// the exchanges.
func failedOrder(ctx context.Context, file string) (*sqlite.Store, error) {
	conn, err := rabbit.Open(rabbit.Config{URL: os.Getenv("AMQP_URL")})
	if err != nil {
		return nil, err
	}
	err = topology.Declare(ctx, conn, topology.Config{Tap: []topology.Tap{{Exchange: "shop", Type: "topic"}}})
	if err := errors.Join(err, conn.Close()); err != nil {
		return nil, err
	}
	store, err := sqlite.Open(ctx, sqlite.Config{Path: file})
	if err == nil {
		err = store.Install(ctx)
	}
	if err != nil {
		return nil, err
	}
	order := schemas.Envelope{Exchange: "shop", RoutingKey: "order.created", Body: []byte("a violin")}
	event := schemas.Event{Action: schemas.Poisoned, Sequence: 1, Envelope: order, BodySize: len(order.Body)}
	event.EventID, event.Fingerprint, event.Message, event.Queue, event.Time = "17", order.Fingerprint(), "order 17", "orders", time.Now()
	_, err = store.Create(ctx, []schemas.Document{schemas.DocumentFormat{}.Document(event)})
	return store, err
}

func ExampleReplayer_Job() {
	_, err := replayer.New(replayer.Config{Jobs: noJobs{}}).Job(context.Background(), "job-1")
	var none *replayer.NoJobError
	fmt.Println(errors.As(err, &none))
	// Output: true
}

func ExampleJobQueue() {
	fmt.Println(replayer.JobQueue(schemas.Topology{}, "job-1"))
	// Output: watership.job.job-1
}

// A job without a save for a while counts as not running.
func ExampleJob_Running() {
	job := replayer.Job{State: replayer.Running, Updated: time.Date(2026, 5, 4, 3, 0, 0, 0, time.UTC)}
	fmt.Println(job.Running(job.Updated.Add(time.Second)), job.Running(job.Updated.Add(time.Hour)), job.Finished())
	// Output: true false false
}

func ExamplePlan_Unroutable() {
	plan := replayer.Plan{Routes: []replayer.Route{{Queue: "stock", Messages: 3, Unroutable: 3}, {Queue: "orders", Messages: 5}}}
	fmt.Println(plan.Unroutable())
	// Output: 3
}

func ExampleTarget_Equal() {
	stock := replayer.Target{Kind: replayer.ToQueue, Queue: "stock"}
	fmt.Println(stock, stock.Equal(replayer.Target{Kind: replayer.ToFailedQueue}))
	// Output: queue stock false
}

// A ramp judges a hundredth of the messages before it goes on.
func ExampleRamp() {
	limit, err := replayer.ParseLimit("failed > 2%")
	ramp := replayer.Ramp{Percent: []float64{1, 5, 20}, StopIf: []replayer.Limit{limit}}
	fmt.Println(ramp.Check(), ramp.WaitOrDefault(), err)
	// Output: <nil> 1m0s <nil>
}

func ExampleLimit() {
	fmt.Println(replayer.Limit{Class: "timeout", Above: 10})
	// Output: failed timeout > 10
}
