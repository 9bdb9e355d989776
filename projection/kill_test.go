package projection_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/database/databasetest"
)

// process runs a command of the projection in another process, again and again.
type process struct {
	command string
	environ []string

	mu      sync.Mutex // guards the fields below
	running *exec.Cmd
	ended   int // by themselves
	kills   int
	output  bytes.Buffer
}

func (p *process) run(ctx context.Context) error {
	for ctx.Err() == nil {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(append(os.Environ(), p.environ...), "WATERSHIP_TEST_COMMAND="+p.command)
		var output bytes.Buffer
		cmd.Stdout, cmd.Stderr = &output, &output
		p.mu.Lock()
		if err := cmd.Start(); err != nil {
			p.mu.Unlock()
			return err
		}
		p.running = cmd
		p.mu.Unlock()
		stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
		err := cmd.Wait()
		stop()
		p.mu.Lock()
		if p.running = nil; err == nil {
			p.ended++
		}
		p.output.Write(output.Bytes())
		p.mu.Unlock()
	}
	return nil
}

// kill ends the process with SIGKILL.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running != nil && p.running.Process.Kill() == nil {
		p.kills++
	}
}

func (p *process) hasEnded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended > 0
}

func (p *process) wasKilled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.kills > 0
}

func TestProcessesKilledAtRandom(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) { killAtRandom(t, db, 5*time.Second) })
}

func TestSoakProcessesKilledAtRandom(t *testing.T) {
	if os.Getenv("WATERSHIP_TEST_SOAK") == "" {
		t.Skip("takes 10 minutes; WATERSHIP_TEST_SOAK=1 runs it")
	}
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) { killAtRandom(t, db, 5*time.Minute) })
}

// killAtRandom kills two processes that keep the projection and one that rebuilds it, and cuts
// their connections, while orders arrive.
func killAtRandom(t *testing.T, db databasetest.Database, during time.Duration) {
	o := newOrders(t)
	o.add(t, 2000)
	environ := []string{"WATERSHIP_TEST_EVENTS=" + o.path, "WATERSHIP_TEST_DRIVER=" + db.Driver, "WATERSHIP_TEST_ADDRESS=" + db.Address}
	processes := []*process{{command: "run", environ: environ}, {command: "run", environ: environ}, {command: "rebuild", environ: environ}}
	stops := make([]func() error, len(processes))
	for i, p := range processes {
		stops[i] = start(t, p.run)
	}
	cuts, begun := 0, time.Now()
	isEnough := func() bool {
		return processes[2].hasEnded() && processes[0].wasKilled() && processes[2].wasKilled() && (db.Driver != "pgx" || cuts > 0)
	}
	for time.Since(begun) < during || !isEnough() && time.Since(begun) < during+2*time.Minute {
		o.add(t, 1+rand.IntN(20))
		time.Sleep(time.Duration(rand.IntN(50)) * time.Millisecond)
		if rand.IntN(10) == 0 && (time.Since(begun) < during || !processes[0].wasKilled() || !processes[2].wasKilled()) {
			processes[rand.IntN(len(processes))].kill()
		}
		if db.Driver == "pgx" && rand.IntN(5) == 0 && (time.Since(begun) < during || cuts == 0) {
			cuts += cutConnection(t, db.DB)
		}
	}
	if err := stops[2](); err != nil {
		t.Error(err)
	}
	o.await(t, db.DB)
	for i, stop := range stops[:2] {
		if err := stop(); err != nil {
			t.Errorf("process %d: %v", i, err)
		}
	}
	g := generations(t, newProjection(t, o.config(db.DB)))
	t.Logf("%d orders, %d+%d+%d kills, %d connections cut, %d rebuilds ended, generations %+v",
		o.n, processes[0].kills, processes[1].kills, processes[2].kills, cuts, processes[2].ended, g)
	if !isEnough() {
		t.Error("nothing was rebuilt, killed or cut: the test shows nothing")
	}
	if t.Failed() {
		for _, p := range processes {
			t.Logf("%s:\n%s", p.command, tail(p.output.String()))
		}
	}
}

// cutConnection ends a connection of another process.
func cutConnection(t *testing.T, db *sql.DB) int {
	t.Helper()
	var cut int
	err := db.QueryRowContext(t.Context(), `SELECT COUNT(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity
		WHERE application_name = current_setting('application_name') AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1) AS one`).Scan(&cut)
	if err != nil {
		t.Log(fmt.Errorf("cutting a connection: %w", err))
	}
	return cut
}

func tail(text string) string { return text[max(0, len(text)-3000):] }
