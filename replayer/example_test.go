package replayer_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/schemas"
)

// noEvents is a store without events.
type noEvents struct{ replayer.Store }

func (noEvents) HighestSequence(context.Context) (int64, error) { return 0, nil }

// noJobs is a store without jobs.
type noJobs struct{ jobs }

type jobs = replayer.Jobs

func (noJobs) Job(context.Context, string) ([]byte, string, error) { return nil, "", nil }

func (noJobs) Jobs(context.Context) iter.Seq2[[]byte, error] {
	return func(func([]byte, error) bool) {}
}

// A replay is planned, created and run.
func ExampleNew() {
	ctx := context.Background()
	r := replayer.New(replayer.Config{
		Store: noEvents{}, Jobs: noJobs{}, NewID: func() string { return "job-1" },
	})
	plan, err := r.Plan(ctx, replayer.Job{
		Query: "event.action: poisoned", Target: replayer.Target{Kind: replayer.ToFailedQueue}, Operator: "ada",
	})
	if err != nil || plan.Total == 0 {
		fmt.Println(plan.Total, "messages to send to", plan.Job.Target, err)
		return
	}
	job, err := r.Create(ctx, plan)
	if err != nil {
		fmt.Println(err)
		return
	}
	job, err = r.Run(ctx, job.ID, replayer.RunOptions{})
	fmt.Println(job.State, job.Sent, err)
	// Output: 0 messages to send to the queue that failed <nil>
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

func ExampleByName() {
	fmt.Println(replayer.ByName([]string{"order-42"}))
	// Output: messaging.message.id: "order-42" or watership.message: "order-42" or event.id: "order-42"
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
