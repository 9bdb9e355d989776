package simulation

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// mutant is a fault that somebody could make.
type mutant struct{ name, file, before, after string }

func mutants() []mutant {
	return []mutant{
		{
			"an event counts although the broker refused it", "pipeline/message_flow.go",
			"		m.Publishing = f.wrapWithoutBody(e, state, body)\n		return f.publisher.Publish(ctx, m)\n",
			"		m.Publishing = f.wrapWithoutBody(e, state, body)\n		_ = f.publisher.Publish(ctx, m)\n		return nil\n",
		},
		{
			"a retry counts although it reached no delay queue", "pipeline/message_flow.go",
			"		err := f.publishDelayed(ctx, e, state, delay)\n",
			"		_ = f.publishDelayed(ctx, e, state, delay)\n		var err error\n",
		},
		{
			"the indexer acknowledges what the store has not written", "indexer/write.go",
			"			if pending, err = s.handleFailure(ctx, budget, pending, err); err != nil {\n				return err\n			}\n			continue\n",
			"			return nil\n",
		},
		{
			"a message that is delivered again is taken for a new one", "pipeline/internal/admission/fairness/gate.go",
			"	if redelivered && t.key != nil && g.cfg.Ordered {\n",
			"	if redelivered && t.key != nil && g.cfg.Ordered && g.position < 0 {\n",
		},
		{
			"the place of a message that waits is forgotten", "pipeline/internal/admission/fairness/gate.go",
			"	g.addPlace(t.id, t.position)\n	t.key.addQueued(t.position)\n",
			"	g.addPlace(t.id, t.position)\n",
		},
		{
			"a message waits half of its delay", "pipeline/message_flow.go",
			"	return f.schedule(ctx, before.Envelope, state, topology.DelayWithQueue(f.permanent, decision.Delay))\n",
			"	state.Delay /= 2\n	return f.schedule(ctx, before.Envelope, state, topology.DelayWithQueue(f.permanent, decision.Delay/2))\n",
		},
		{
			"an attempt is not counted", "schemas/state.go",
			"	s.Attempt++\n",
			"	if s.Attempt == 0 {\n		s.Attempt++\n	}\n",
		},
		{
			"processes do not ask whether another one has an ordered route", "pipeline/internal/admission/admission.go",
			"	if cfg.Fairness.Places != nil {\n",
			"	if cfg.Fairness.Places != nil && cfg.Concurrency < 0 {\n",
		},
		{
			"a pause reaches no process", "internal/topology/pause/watcher.go",
			"			problems[i] = w.set(switches[queue], queue, paused, err)\n",
			"			problems[i] = w.set(switches[queue], queue, paused && err != nil, err)\n",
		},
	}
}

const mostSeeds = 300 // until a mutant is found

// The simulation finds each mutant. OVERLAY is an overlay of package goruntime.
func TestMutantsAreFound(t *testing.T) {
	base := os.Getenv("OVERLAY")
	if base == "" {
		t.Skip("make sim MUTANTS=1 builds and runs the mutants, which takes long")
	}
	for _, m := range mutants() {
		t.Run(m.name, func(t *testing.T) {
			program := m.build(t, base)
			for seed := uint64(1); seed <= mostSeeds; seed++ {
				if result := runProcess(t.Context(), program, NewPlan(seed), t.TempDir()); len(result.Violations) > 0 {
					t.Logf("seed %d: %s", seed, result.Violations[0])
					return
				}
			}
			t.Errorf("%d seeds have not found it", mostSeeds)
		})
	}
}

// build builds the simulation with the mutant.
func (m mutant) build(t *testing.T, base string) (program string) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(root, m.file)
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), m.before); n != 1 {
		t.Fatalf("%s has %q %d times: the mutant is of another version", m.file, m.before, n)
	}
	folder := t.TempDir()
	changed := filepath.Join(folder, "changed.txt")
	if err := os.WriteFile(changed, []byte(strings.Replace(string(text), m.before, m.after, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(folder, "overlay.json")
	if err := os.WriteFile(overlay, withFile(t, base, source, changed), 0o600); err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(folder, "simulation.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", overlay, "-o", program, ".")
	build.Env = append(os.Environ(), "GOMAXPROCS=", "GOGC=", "GOMEMLIMIT=", "GODEBUG=", "GOEXPERIMENT=norandomizedheapbase64")
	if printed, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, printed)
	}
	return program
}

// withFile returns an overlay with one more file.
func withFile(t *testing.T, base, source, changed string) []byte {
	t.Helper()
	text, err := os.ReadFile(base)
	if err != nil {
		t.Fatal(err)
	}
	var overlay struct{ Replace map[string]string }
	if err := json.Unmarshal(text, &overlay); err != nil {
		t.Fatal(fmt.Errorf("%s: %w", base, err))
	}
	files := maps.Clone(overlay.Replace)
	files[source] = changed
	joined, err := json.Marshal(map[string]any{"Replace": files})
	if err != nil {
		t.Fatal(err)
	}
	return joined
}
