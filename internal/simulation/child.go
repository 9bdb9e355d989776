package simulation

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// Variables of the environment of a process that runs one plan.
const (
	planVariable   = "SIMULATION_PLAN"
	resultVariable = "SIMULATION_RESULT" // a file
)

const longestRun = 20 * time.Minute // of the machine's time, which other programs may need

// runProcess runs a plan in a process of a program, with the test that reads the plan from the environment: the
// memory of a process, in which maps and pools are in some order, is the same at each start. A
// process that ends without a result has violated something, too.
func runProcess(ctx context.Context, program string, plan Plan, folder string) (result Result) {
	answer := filepath.Join(folder, fmt.Sprintf("%d.json", plan.Seed))
	defer func() { _ = os.Remove(answer) }()
	ctx, cancel := context.WithTimeout(ctx, longestRun)
	defer cancel()
	printed, err := startProcess(ctx, program, plan, answer)
	if text, unread := os.ReadFile(answer); unread != nil || json.Unmarshal(text, &result) != nil {
		result.Violations = append(result.Violations, fmt.Sprintf("the process ended with %v: %s", err, endOf(printed)))
	}
	return result
}

func startProcess(ctx context.Context, program string, plan Plan, answer string) (printed []byte, err error) {
	text, err := json.Marshal(plan)
	if err != nil {
		return nil, err
	}
	child := exec.CommandContext(ctx, program, "-test.run=^TestPlanOfTheEnvironment$", "-test.timeout=0")
	child.Env = append(os.Environ(), planVariable+"="+string(text), resultVariable+"="+answer)
	child.Cancel = func() error { return child.Process.Signal(syscall.SIGQUIT) } // it prints its goroutines
	child.WaitDelay = 10 * time.Second
	return child.CombinedOutput()
}

// endOf returns the goroutines that wait for locks, which stop the time of a bubble; without one the last
// lines.
func endOf(printed []byte) []byte {
	var waiting [][]byte
	for goroutine := range bytes.SplitSeq(printed, []byte("\n\n")) {
		if header, _, _ := bytes.Cut(goroutine, []byte("\n")); bytes.Contains(header, []byte("Mutex")) {
			waiting = append(waiting, goroutine)
		}
	}
	if len(waiting) > 0 {
		return bytes.Join(waiting, []byte("\n\n"))
	}
	lines := bytes.Split(bytes.TrimSpace(printed), []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-40):], []byte("\n"))
}

// shrink returns a plan with the fewest faults with which fails still is true, and which no other
// fault can leave.
func shrink(plan Plan, fails func(Plan) bool) Plan {
	for i := 0; i < len(plan.Faults); {
		fewer := plan
		fewer.Faults = append(append([]Fault(nil), plan.Faults[:i]...), plan.Faults[i+1:]...)
		if fails(fewer) {
			plan, i = fewer, 0
			continue
		}
		i++
	}
	return plan
}
