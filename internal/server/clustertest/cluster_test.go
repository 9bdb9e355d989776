package clustertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/backoff"
)

// TestListFaults prints the names of the faults.
func TestListFaults(t *testing.T) {
	for _, f := range faults() {
		t.Log(f.name)
	}
}

// Each confirmed message is recorded once and ends as its policy says, whatever happens to a node.
func TestFaults(t *testing.T) {
	dir := os.Getenv("WATERSHIP_TEST_CLUSTER")
	if dir == "" {
		t.Skip("make cluster starts the clusters for this test")
	}
	seed := number(t, "SEED", time.Now().UTC().Format("20060102"))
	rate, rounds := number(t, "RATE", "60"), number(t, "ROUNDS", "1")
	if rate == 0 {
		t.Fatal("RATE=0: expected 1 or more messages a second")
	}
	t.Logf("SEED=%d BROKER=%s RATE=%d", seed, os.Getenv("BROKER"), rate)
	service := serveHandlers(t)
	subscribe(t, dir)
	createStreams(t)
	watch := watchCluster(t)
	random := rand.New(rand.NewPCG(seed, 0))
	for round := range rounds {
		for i, f := range shuffled(chosen(t), random) {
			name := fmt.Sprintf("s%dr%dn%d", seed, round, i)
			t.Run(f.name, func(t *testing.T) {
				r := &run{
					name: name, fault: f, laboratory: laboratory{dir, os.Getenv("WATERSHIP_TEST_CLUSTER_SCRIPT")}, random: rand.New(rand.NewPCG(seed, round<<32|uint64(i))),
					every: time.Second * publishers / time.Duration(rate), service: service, watch: watch, say: func(what string, nodes []node) { t.Log(what, nodes) },
				}
				r.test(t)
			})
		}
	}
}

func number(t *testing.T, name, otherwise string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(cmp.Or(os.Getenv(name), otherwise), 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// chosen returns the faults of FAULTS, or all.
func chosen(t *testing.T) (some []fault) {
	t.Helper()
	names := strings.Fields(os.Getenv("FAULTS"))
	for _, f := range faults() {
		if len(names) == 0 || slices.Contains(names, f.name) {
			some = append(some, f)
		}
	}
	if len(some) < len(names) {
		t.Fatalf("FAULTS=%q: FAULTS=list lists the names", names)
	}
	return some
}

// subscribe creates the subscription whose deliveries are checked.
func subscribe(t *testing.T, dir string) {
	t.Helper()
	out, err := exec.Command(filepath.Join(dir, "watership"), "subscribe", "ledger", "routing_key: ledger.*", "--from", "now", "--to-url", "http://bridge:8080/events",
		"--config", "../../../scripts/cluster.d/watership.yaml").CombinedOutput()
	if err != nil {
		t.Fatalf("subscribe: %v\n%s", err, out)
	}
}

// createStreams publishes the first messages, with which Elasticsearch creates its indices. That takes it some
// time.
func createStreams(t *testing.T) {
	t.Helper()
	first := &publisher{run: "first", nodes: brokers(), every: 20 * time.Millisecond, versions: map[string]int{}}
	ctx, stop := context.WithTimeout(t.Context(), 3*time.Second)
	defer stop()
	first.publish(ctx)
	outcomes := 0
	for _, m := range first.account() {
		if !m.confirmed.IsZero() {
			outcomes++
		}
	}
	if err := waitFor(t.Context(), 2*time.Minute, func(ctx context.Context) error { return recorded(ctx, first.run, outcomes) }); err != nil {
		t.Fatalf("the first messages: %v", err)
	}
}

// publishers is the number of publishers, each at first connected to another node.
const publishers = 3

// run is traffic with one fault.
type run struct {
	name       string
	fault      fault
	laboratory laboratory
	random     *rand.Rand
	every      time.Duration // between messages of a publisher
	service    *service
	watch      *watch
	say        func(what string, nodes []node)

	harmed                        []node // by the fault
	began, fails, healed, stopped time.Time
}

func (r *run) harm(nodes ...node) { r.harmed = append(r.harmed, nodes...) }

// test runs traffic before, during and after the fault, waits until all messages have an outcome, and
// compares.
func (r *run) test(t *testing.T) {
	ctx := t.Context()
	if err := waitFor(ctx, 2*time.Minute, r.whole); err != nil {
		t.Fatalf("before the fault: %v", err)
	}
	r.began = time.Now()
	traffic, stop := context.WithCancel(ctx)
	var sending sync.WaitGroup
	var all []*publisher
	for i := range publishers {
		nodes := brokers()
		p := &publisher{run: r.name, number: i, nodes: append(nodes[i:], nodes[:i]...), every: r.every, versions: map[string]int{}}
		all = append(all, p)
		sending.Go(func() { p.publish(traffic) })
	}
	failed := backoff.Sleep(ctx, 6*time.Second+time.Duration(r.random.Int64N(int64(6*time.Second))))
	r.fails = time.Now()
	if failed == nil {
		failed = r.fault.do(ctx, r)
	}
	r.healed = time.Now()
	if failed != nil {
		t.Errorf("%v", failed)
	}
	_ = backoff.Sleep(ctx, 15*time.Second)
	r.stopped = time.Now()
	stop()
	sending.Wait()

	if err := waitFor(ctx, 2*time.Minute, r.whole); err != nil {
		t.Errorf("2 minutes after the fault: %v", err)
	}
	var a account
	for _, p := range all {
		a.messages = append(a.messages, p.account()...)
	}
	if err := waitFor(ctx, 2*time.Minute, func(ctx context.Context) error { return r.drained(ctx, a.messages) }); err != nil {
		t.Errorf("2 minutes after the cluster is whole: %v", err)
	}
	var err error
	if a.events, err = record(ctx, r.name); err != nil {
		t.Fatal(err)
	}
	a.calls = r.service.of(r.name)
	r.judge(t, a)
}

// whole is nil if all nodes are up, and serve is ready.
func (r *run) whole(ctx context.Context) error {
	errs := []error{wholeBroker(ctx), wholeStore(ctx)}
	for _, n := range serves() {
		if status, text := readiness(ctx, n); status != 200 {
			errs = append(errs, fmt.Errorf("%s is not ready: %d %s", n, status, text))
		}
	}
	return errors.Join(errs...)
}

// drained is nil if all messages that were confirmed have an outcome, and the subscription has delivered.
func (r *run) drained(ctx context.Context, all []message) error {
	if !r.service.finished(r.name, all) {
		return errors.New("handlers have not decided all messages")
	}
	outcomes := 0
	for _, m := range all {
		if !m.confirmed.IsZero() {
			outcomes++
		}
	}
	if err := recorded(ctx, r.name, outcomes); err != nil {
		return err
	}
	a := account{messages: all, calls: r.service.of(r.name)}
	if left := a.undelivered(a.callsByMessage()); len(left) > 0 {
		return errors.New(left[0])
	}
	return nil
}

const mostShown = 20 // sentences about one run

// judge reports each promise that was not kept, and writes a row of the results.
func (r *run) judge(t *testing.T, a account) {
	found := a.broken()
	found = append(found, r.watch.stuck(r.healed)...)
	if r.fault.name == "none" && a.repeats() > 0 {
		found = append(found, fmt.Sprintf("%d calls repeat an attempt without a fault", a.repeats()))
	}
	if unready := r.watch.unready(r.began, r.fails); len(unready) > 0 {
		found = append(found, "not ready before the fault: "+unready[0])
	}
	moments := a.moments()
	for _, series := range []string{"orders", "ledger", "record", "subscription"} {
		d, at := gap(moments[series], r.fails, r.stopped)
		if r.fault.within > 0 && d > r.fault.within {
			found = append(found, fmt.Sprintf("nothing of %s for %v from %v after the fault, more than %v", series, d.Round(time.Millisecond), at.Sub(r.fails).Round(time.Millisecond), r.fault.within))
		}
		if most := 25 * time.Second; series != "subscription" && d > most+20*time.Second && len(r.watch.unready(at, at.Add(d), r.harmed...)) == 0 {
			found = append(found, fmt.Sprintf("nothing of %s for %v, and all processes without a fault said that they are ready", series, d.Round(time.Second)))
		}
	}
	if longest := a.longestWait(); r.fault.wait > 0 && longest > r.fault.wait {
		found = append(found, fmt.Sprintf("a message waited %v, more than %v", longest.Round(time.Millisecond), r.fault.wait))
	}
	for i, text := range found {
		if i == mostShown {
			t.Errorf("and %d more", len(found)-mostShown)
			break
		}
		t.Error(text)
	}
	row := r.row(a, moments, len(found))
	t.Log(row)
	file, err := os.OpenFile(filepath.Join(r.laboratory.dir, "results", "runs.md"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := fmt.Fprintln(file, row); err != nil {
		t.Fatal(err)
	}
}

// moments returns when something of each kind was done.
func (a account) moments() map[string][]time.Time {
	of := map[string][]time.Time{}
	for _, m := range a.messages {
		if !m.confirmed.IsZero() {
			of["confirms"] = append(of["confirms"], m.confirmed)
		}
	}
	for _, c := range a.calls {
		if c.path == "events" {
			of["subscription"] = append(of["subscription"], c.begun)
			continue
		}
		of[c.path] = append(of[c.path], c.begun)
	}
	for _, e := range a.events {
		of["record"] = append(of["record"], e.ingested)
	}
	return of
}

// row is a row of a table in Markdown.
func (r *run) row(a account, moments map[string][]time.Time, found int) string {
	confirmed := len(moments["confirms"])
	cells := []string{
		r.fault.name, os.Getenv("BROKER"), r.name, fmt.Sprint(r.harmed), r.fails.UTC().Format(time.RFC3339), r.healed.Sub(r.fails).Round(time.Second).String(),
		fmt.Sprintf("%d confirmed, %d unknown", confirmed, len(a.messages)-confirmed), fmt.Sprintf("%d repeats", a.repeats()),
	}
	for _, series := range []string{"confirms", "orders", "ledger", "record", "subscription"} {
		d, _ := gap(moments[series], r.fails, r.stopped)
		cells = append(cells, fmt.Sprintf("%s %.1fs", series, d.Seconds()))
	}
	cells = append(cells, fmt.Sprintf("wait %.1fs", a.longestWait().Seconds()), fmt.Sprintf("alerts %.0fs", r.watch.withoutAlerts(r.fails, r.stopped).Seconds()),
		fmt.Sprintf("%d samples not ready", len(r.watch.unready(r.fails, r.stopped, r.harmed...))), fmt.Sprintf("%d broken", found))
	return "| " + strings.Join(cells, " | ") + " |"
}
