// Command goruntime writes an overlay for go build with a Go runtime whose decisions repeat: the
// simulation runs in it, so that one seed gives one run. With one processor the scheduler takes
// goroutines in a fixed order, unless it draws a random number or interrupts one that takes long.
// In a bubble of synctest the numbers are drawn from a sequence that begins again with each
// bubble, and nothing is interrupted. No other program should run with this runtime, since
// a goroutine that never ends stops all others.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "goruntime:", err)
		os.Exit(1)
	}
}

// run writes the overlay to a folder, and prints the path of its description for go build -overlay.
func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%d arguments: name the folder of the overlay", len(args))
	}
	folder, err := filepath.Abs(args[0])
	if err != nil {
		return err
	}
	src, err := sources()
	if err != nil {
		return err
	}
	path, err := write(src, folder)
	if err == nil {
		fmt.Println(path)
	}
	return err
}

// sources returns the folder of the sources of Go.
func sources() (string, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("asking for the folder of Go: %w", err)
	}
	return filepath.Join(strings.TrimSpace(string(root)), "src"), nil
}

// change replaces a text, which a file of Go has once.
type change struct{ file, before, after string }

const decided = "b := getg().bubble; b != nil"

// changes returns the changes of Go 1.26.
func changes() []change {
	return []change{
		// The state of the numbers that a bubble draws.
		{"runtime/synctest.go", "	now     int64  // current fake time\n", "	now     int64  // current fake time\n	drawn   uint64\n"},
		{"runtime/rand.go", "// randn is like rand() % n but faster.", `//go:nosplit
func (b *synctestBubble) draw() uint32 {
	b.drawn += 0xa0761d6478bd642f
	hi, lo := math.Mul64(b.drawn, b.drawn^0xe7037ed1a0b428db)
	return uint32(hi ^ lo)
}

// randn is like rand() % n but faster.`},
		// The order of maps, and math/rand. Seeds of maps from before the bubble repeat, too.
		{"runtime/rand.go", "func rand() uint64 {\n", "func rand() uint64 {\n	if " + decided + " {\n		return uint64(b.draw())<<32 | uint64(b.draw())\n	}\n"},
		{"runtime/rand.go", "	globalRand.state.Init(*seed)\n", "	*seed = [32]byte{1}\n	globalRand.state.Init(*seed)\n"},
		// The case of a select of which several are ready.
		{"runtime/select.go", "j := cheaprandn(uint32(norder + 1))", `j := uint32(0)
		if ` + decided + ` {
			j = uint32((uint64(b.draw()) * uint64(norder+1)) >> 32)
		} else {
			j = cheaprandn(uint32(norder + 1))
		}`},
		// The order of timers of one moment, and of goroutines that wait for a lock.
		{"runtime/time.go", "t.rand = cheaprand()", "t.rand = 0"},
		{"runtime/sema.go", "s.ticket = cheaprand() | 1", "s.ticket = cheaprand() | 1\n	if " + decided + " {\n		s.ticket = b.draw() | 1\n	}"},
		{"runtime/sema.go", "func internal_sync_nanotime() int64 {\n", "func internal_sync_nanotime() int64 {\n	if getg().bubble != nil {\n		return 0\n	}\n"},
		// Goroutines and system calls that take long, in a process that has had a bubble or is to have one: a thread
		// that is started for a system call takes memory, and maps of pointers have the order of their addresses.
		{"runtime/proc.go", "func retake(now int64) uint32 {\n", "func retake(now int64) uint32 {\n	if bubbleGen.Load() > 0 || gogetenv(\"SIMULATION_PLAN\") != \"\" {\n		return 0\n	}\n"},
		// The queue of goroutines that gave way, which also depends on how often others ran.
		{"runtime/proc.go", "if pp.schedtick%61 == 0 && !sched.runq.empty() {", "if bubbleGen.Load() == 0 && pp.schedtick%61 == 0 && !sched.runq.empty() {"},
		// A goroutine has the wall clock of the one that started it, and of the one that set its timer. Times in a bubble are
		// measured by a clock, too, that no actor sets.
		{"runtime/runtime2.go", "	bubble  *synctestBubble\n", "	bubble  *synctestBubble\n	clock   *int64\n"},
		{"runtime/proc.go", "		newg.bubble = callergp.bubble\n", "		newg.bubble = callergp.bubble\n		newg.clock = callergp.clock\n"},
		{"runtime/proc.go", "	gp.labels = nil\n", "	gp.labels = nil\n	gp.clock = nil\n"},
		{"runtime/time.go", "	isFake bool         //", "	clock  *int64\n	isFake bool         //"},
		{"runtime/time.go", "		t.isFake = true\n	}\n	t.modify(", "		t.isFake = true\n		t.clock = getg().clock\n	}\n	t.modify("},
		{"runtime/time.go", "		gp.bubble = bubble\n", "		gp.bubble = bubble\n		gp.clock = t.clock\n"},
		{"runtime/time.go", "		gp.bubble = nil\n", "		gp.bubble = nil\n		gp.clock = nil\n"},
		{"runtime/time.go", "		sec = bubble.now / (1000 * 1000 * 1000)\n		nsec = int32(bubble.now % (1000 * 1000 * 1000))\n", `		wall := bubble.now
		if ahead := getg().clock; ahead != nil {
			wall += *ahead
		}
		sec = wall / (1000 * 1000 * 1000)
		nsec = int32(wall % (1000 * 1000 * 1000))
`},
		{"runtime/time.go", "		return sec, nsec, 0\n", "		return sec, nsec, bubble.now\n"},
		{"runtime/time.go", "//go:linkname time_runtimeIsBubbled", `//go:linkname useClock
func useClock(ahead *int64) (before *int64) {
	gp := getg()
	before, gp.clock = gp.clock, ahead
	return before
}

//go:linkname time_runtimeIsBubbled`},
		// Names of processes have a number, whose length decides how long frames are.
		{"os/exec.go", "func Getpid() int { return syscall.Getpid() }", "func Getpid() int { return 4711 }"},
	}
}

// write writes the changed files of src, and returns the path of the description.
func write(src, folder string) (string, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	texts := map[string]string{}
	for _, c := range changes() {
		if texts[c.file] == "" {
			text, err := os.ReadFile(filepath.Join(src, c.file))
			if err != nil {
				return "", err
			}
			texts[c.file] = string(text)
		}
		if n := strings.Count(texts[c.file], c.before); n != 1 {
			return "", fmt.Errorf("%s has %q %d times, and must have it once: the changes are of another version of Go", filepath.Join(src, c.file), c.before, n)
		}
		texts[c.file] = strings.Replace(texts[c.file], c.before, c.after, 1)
	}
	replace := map[string]string{}
	for file, text := range texts {
		path := filepath.Join(folder, strings.ReplaceAll(file, "/", "_")+".txt") // no package of the module that the folder is in
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(src, file)] = path
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, "overlay.json")
	return path, os.WriteFile(path, overlay, 0o600)
}
