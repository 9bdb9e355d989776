package servertest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// StartProgram runs a program until the test ends, and returns a function for its output so far.
func StartProgram(t *testing.T, environ []string, name string, args ...string) (output func() string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), environ...)
	log, err := os.Create(filepath.Join(t.TempDir(), "output"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	output = func() string {
		said, err := os.ReadFile(log.Name())
		if err != nil {
			t.Error(err)
		}
		return string(said)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s says:\n%s", name, output())
		}
		_ = log.Close()
	})
	return output
}

// ReadJSONLines calls each with the lines of a command that are JSON, until the test ends the
// command.
func ReadJSONLines[T any](t *testing.T, cmd *exec.Cmd, lines *bufio.Scanner, each func(T)) {
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines.Scan() {
			var one T
			if json.Unmarshal(lines.Bytes(), &one) == nil {
				each(one)
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait()
	})
}

// TrafficBodies are JSON documents with texts and numbers, of about a size.
func TrafficBodies(size int) [][]byte {
	random := rand.New(rand.NewPCG(1, 2))
	words := func(n int) string {
		text := make([]string, n)
		for i := range text {
			text[i] = fmt.Sprintf("%05x", random.IntN(20_000))
		}
		return strings.Join(text, " ")
	}
	bodies := make([][]byte, 2000)
	for n := range bodies {
		order := map[string]any{"order": fmt.Sprintf("o-%08d", random.IntN(100_000_000)), "customer": fmt.Sprint("c-", random.IntN(10_000)), "currency": "EUR"}
		var items []map[string]any
		for len(bodies[n]) < size {
			items = append(items, map[string]any{
				"sku": fmt.Sprintf("SKU-%06d", random.IntN(1_000_000)), "name": words(4), "quantity": random.IntN(9) + 1, "price": random.IntN(100_000), "gift": random.IntN(3) == 0,
			})
			order["items"] = items
			bodies[n], _ = json.Marshal(order)
		}
	}
	return bodies
}

// SameSecond compares times by their seconds.
func SameSecond() cmp.Option {
	return cmp.Comparer(func(a, b time.Time) bool { return a.Unix() == b.Unix() })
}

// WriteFile writes a file that is deleted when the test ends, and returns its path.
func WriteFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
