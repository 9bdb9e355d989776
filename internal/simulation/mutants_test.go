package simulation

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// mutant is a fault that somebody could make, or that was made and mended.
type mutant struct {
	name  string
	edits []edit
}

// edit replaces a text, which a file has once.
type edit struct{ file, before, after string }

const mostSeeds = 300 // until a mutant is found

// The simulation finds each mutant. OVERLAY is an overlay of package goruntime.
func TestMutantsAreFound(t *testing.T) {
	base := os.Getenv("OVERLAY")
	if base == "" {
		t.Skip("make sim MUTANTS=1 builds and runs the mutants, which takes long")
	}
	for _, m := range slices.Concat(mutants(), formerFaults()) {
		t.Run(m.name, func(t *testing.T) {
			program := m.build(t, base)
			seed, violations := firstFailing(t, program)
			if len(violations) == 0 {
				t.Fatalf("%d seeds have not found it", mostSeeds)
			}
			t.Logf("seed %d: %s", seed, violations[0])
		})
	}
}

// firstFailing returns the first of mostSeeds seeds, from SEED on, with which a program violates something. It runs
// a seed on each processor.
func firstFailing(t *testing.T, program string) (first uint64, violations []string) {
	t.Helper()
	folder, from := t.TempDir(), number(t, "SEED", 1)
	var mu sync.Mutex // guards next and the results
	next := from
	var running sync.WaitGroup
	for range runtime.NumCPU() {
		running.Go(func() {
			for {
				mu.Lock()
				seed, found := next, first > 0
				next++
				mu.Unlock()
				if found || seed >= from+mostSeeds {
					return
				}
				result := runProcess(t.Context(), program, NewPlan(seed), folder)
				mu.Lock()
				if len(result.Violations) > 0 && (first == 0 || seed < first) {
					first, violations = seed, result.Violations
				}
				mu.Unlock()
			}
		})
	}
	running.Wait()
	return first, violations
}

// build builds the simulation with the mutant.
func (m mutant) build(t *testing.T, base string) (program string) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	text, err := os.ReadFile(base)
	if err != nil {
		t.Fatal(err)
	}
	var overlay struct{ Replace map[string]string }
	if err := json.Unmarshal(text, &overlay); err != nil {
		t.Fatalf("%s: %v", base, err)
	}
	for i, file := range slices.Sorted(maps.Keys(m.files(t, root))) {
		changed := filepath.Join(folder, fmt.Sprint(i, ".txt"))
		if err := os.WriteFile(changed, []byte(m.files(t, root)[file]), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[file] = changed
	}
	joined, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	described := filepath.Join(folder, "overlay.json")
	if err := os.WriteFile(described, joined, 0o600); err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(folder, "simulation.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-tags", "goruntime", "-overlay", described, "-o", program, ".")
	build.Env = append(os.Environ(), "GOMAXPROCS=", "GOGC=", "GOMEMLIMIT=", "GODEBUG=", "GOEXPERIMENT=norandomizedheapbase64")
	if printed, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, printed)
	}
	return program
}

// files returns the files that the mutant changes, by their paths.
func (m mutant) files(t *testing.T, root string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, e := range m.edits {
		path := filepath.Join(root, e.file)
		text, known := files[path]
		if !known {
			read, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			text = string(read)
		}
		if n := strings.Count(text, e.before); n != 1 {
			t.Fatalf("%s has this text %d times, and must have it once: write the mutant for this version of the file:\n%s", e.file, n, e.before)
		}
		files[path] = strings.Replace(text, e.before, e.after, 1)
	}
	return files
}

// Each mutant is one of this version.
func TestMutantsAreOfThisVersion(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range slices.Concat(mutants(), formerFaults()) {
		t.Run(m.name, func(t *testing.T) { m.files(t, root) })
	}
}
