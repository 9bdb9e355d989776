package broker_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/broker"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// fewFiles is how many file descriptors the process of TestFilesRunOut may have.
const fewFiles = 64

// A broker that has no file descriptor for a connection accepts it later.
func TestFilesRunOut(t *testing.T) {
	if os.Getenv("WATERSHIP_TEST_FEW_FILES") != "" {
		listenWithFewFiles(t)
		return
	}
	process := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestFilesRunOut$")
	process.Env = append(os.Environ(), "WATERSHIP_TEST_FEW_FILES=1")
	in, err := process.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Process.Kill() })
	lines := bufio.NewScanner(out)
	address := awaitLine(t, lines, "address=")
	var streams []net.Conn
	for range fewFiles { // the system takes those that the broker cannot accept
		stream, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, stream)
	}
	awaitLine(t, lines, "AMQP connections have to wait")
	for _, stream := range streams {
		stream.Close()
	}
	conn, err := amqp.Dial("amqp://guest:guest@" + address + "/")
	if err != nil {
		t.Fatalf("after the shortage: %v", err)
	}
	conn.Close()
	in.Close() // which ends the process
	_, _ = io.Copy(io.Discard, out)
	if err := process.Wait(); err != nil {
		t.Error(err)
	}
}

// awaitLine returns the end of the first line that contains a text.
func awaitLine(t *testing.T, lines *bufio.Scanner, text string) string {
	t.Helper()
	for lines.Scan() {
		if _, rest, found := strings.Cut(lines.Text(), text); found {
			return rest
		}
	}
	t.Fatalf("the process ended without %q", text)
	return ""
}

func listenWithFewFiles(t *testing.T) {
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: fewFiles, Max: fewFiles}); err != nil {
		t.Fatal(err)
	}
	b := start(t, broker.Config{Logger: slog.New(slog.NewTextHandler(os.Stdout, nil))})
	address, err := b.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("address=%s\n", address)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// The owner of a broker is told that a listener has ended.
func TestListenerFails(t *testing.T) {
	b := start(t, broker.Config{})
	address, err := b.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	rabbittest.FailListener(t, address)
	if err := receive(t, b.Failed()); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("failed with %v", err)
	}
	connect(t, b) // the rest goes on
}
