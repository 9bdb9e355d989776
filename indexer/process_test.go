package indexer

import (
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/system/gctuning"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// process is an indexer in a process of its own, which a test may kill.
type process struct {
	running // stops it in good order
	pid     int
	kill    func() // as a crash does
}

// processConfig configures a process.
type processConfig struct {
	Broker string // URL
	Store  string // URL
	Prefix string // of the topology
	Stream string
	File   string        // of the embedded store, instead of Store and Stream
	Ahead  time.Duration // how far its clock is
	Batch  Batch
}

// startProcess starts this test binary again, as an indexer.
func (s *system) startProcess(h processConfig) *process {
	s.t.Helper()
	h.Prefix = s.topology.Prefix
	told, err := json.Marshal(h)
	if err != nil {
		s.t.Fatal(err)
	}
	command := exec.Command(os.Args[0], "-test.run=^TestProcess$", "-test.timeout=0")
	// No virtual host for examples: a killed process cannot delete it.
	command.Env = append(os.Environ(), "WATERSHIP_TEST_PROCESS="+string(told), "WATERSHIP_TEST_MANAGEMENT_URLS=")
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		s.t.Fatal(err)
	}
	var ended sync.Once
	p := &process{pid: command.Process.Pid}
	p.kill = func() {
		ended.Do(func() {
			_ = command.Process.Kill()
			_ = command.Wait()
		})
	}
	p.stop = func() {
		ended.Do(func() {
			_ = in.Close()
			if err := command.Wait(); err != nil {
				s.t.Errorf("the indexer's process: %v", err)
			}
		})
	}
	s.t.Cleanup(p.kill)
	return p
}

func (h processConfig) openStore(t *testing.T) testStore {
	if h.File != "" {
		return openFile(t, h.File)
	}
	return openStore(t, h.Store, h.Stream)
}

// TestProcess is no test: it is the indexer, when another test starts it, until
// its input ends.
func TestProcess(t *testing.T) {
	config := os.Getenv("WATERSHIP_TEST_PROCESS")
	if config == "" {
		t.Skip("runs for other tests")
	}
	var h processConfig
	if err := json.Unmarshal([]byte(config), &h); err != nil {
		t.Fatal(err)
	}
	gctuning.Apply(gctuning.ServeLimit(64 << 20)) // as `watership serve` does
	s := &system{
		Broker: rabbittest.Broker{Address: rabbittest.Address{URL: h.Broker}}, t: t, topology: schemas.Topology{Prefix: h.Prefix}, log: &rabbittest.Log{},
	}
	s.decoder = wire.Decoder{Source: h.Prefix, VHost: "/", Topology: s.topology}
	run := s.start(h.openStore(t), func(cfg *Config) {
		cfg.Now = func() time.Time { return time.Now().Add(h.Ahead) }
		cfg.Batch = h.Batch
		if os.Getenv("WATERSHIP_TEST_LOG") != "" {
			cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
		}
	})
	_, _ = io.Copy(io.Discard, os.Stdin)
	run.stop()
}
