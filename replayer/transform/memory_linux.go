package transform

import (
	"fmt"
	"os"
	"syscall"
)

// limitMemory limits the memory of this process to some bytes more than it has now. The
// system refuses more, and Go ends the process. If the machine itself has less, the system
// ends this process before others.
func limitMemory(bytes uint64) error {
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return err
	}
	var pages uint64
	if _, err := fmt.Sscan(string(statm), &pages); err != nil {
		return err
	}
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0) // where it may
	limit := pages*uint64(os.Getpagesize()) + bytes
	return syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: limit, Max: limit})
}
