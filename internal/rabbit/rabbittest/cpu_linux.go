package rabbittest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Servers returns the process ids of the newest RabbitMQ, "broker", and of Elasticsearch,
// "store", as far as the tests have started them.
func Servers(t testing.TB) map[string]int {
	t.Helper()
	found := map[string]int{}
	dir := filepath.Join(filepath.Dir(os.Getenv("WATERSHIP_TEST_SERVICES")), "..", ".services")
	names := map[string]string{"store": "elasticsearch"}
	if !noServers() {
		names["broker"] = NewestServer(t).ServiceName()
	}
	for name, server := range names {
		text, err := os.ReadFile(filepath.Join(dir, server+".pid"))
		if err != nil {
			continue
		}
		first, _, _ := strings.Cut(string(text), " ")
		if pid, err := strconv.Atoi(strings.TrimSpace(first)); err == nil {
			found[name] = pid
		}
	}
	return found
}

// CPU returns the CPU time of processes with their child processes, by the names in pids. The
// kernel counts it in hundredths of a second.
func CPU(pids map[string]int) map[string]time.Duration {
	used := map[string]time.Duration{}
	parents, times := processes()
	for name, process := range pids {
		for pid := range times {
			for ancestor := pid; ancestor > 1; ancestor = parents[ancestor] {
				if ancestor == process {
					used[name] += times[pid]
					break
				}
			}
		}
	}
	return used
}

// processes reads /proc/PID/stat (proc_pid_stat(5)), where a second has 100 ticks.
func processes() (parents map[int]int, times map[int]time.Duration) {
	parents, times = map[int]int{}, map[int]time.Duration{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		name := bytes.LastIndexByte(stat, ')')
		fields := strings.Fields(string(stat[name+1:]))
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if len(fields) < 13 {
			continue
		}
		parents[pid], _ = strconv.Atoi(fields[1])
		user, _ := strconv.Atoi(fields[11])
		system, _ := strconv.Atoi(fields[12])
		times[pid] = time.Duration(user+system) * 10 * time.Millisecond
	}
	return parents, times
}

// PeakMemory returns the largest resident set of a process so far, in bytes (VmHWM of
// proc_pid_status(5)).
func PeakMemory(pid int) (bytes int) {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	_, _ = fmt.Sscan(rest, &bytes)
	return bytes << 10
}
