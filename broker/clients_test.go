package broker_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/broker"
)

// Programs in other languages, with the clients most used there. They skip where
// the client is not to be had.

func TestPika(t *testing.T) {
	folder := os.Getenv("WATERSHIP_TEST_PIKA")
	if folder == "" {
		unavailable(t, `WATERSHIP_TEST_PIKA is not set (eval "$(scripts/fixtures env)")`)
	}
	runClient(t, "PYTHONPATH="+folder, "python3", "testdata/client.py")
}

// WATERSHIP_TEST_AMQPLIB is a folder with amqplib in it, for NODE_PATH.
func TestAmqplib(t *testing.T) {
	folder := os.Getenv("WATERSHIP_TEST_AMQPLIB")
	if folder == "" {
		unavailable(t, `WATERSHIP_TEST_AMQPLIB is not set (eval "$(scripts/fixtures env)")`)
	}
	runClient(t, "NODE_PATH="+folder, "node", "testdata/client.js")
}

func unavailable(t *testing.T, reason string) {
	t.Helper()
	if os.Getenv("WATERSHIP_TEST_REQUIRED") != "" {
		t.Fatal(reason)
	}
	t.Skip(reason)
}

func runClient(t *testing.T, environment, command, script string) {
	t.Helper()
	b := start(t, broker.Config{})
	addr, err := b.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client := exec.CommandContext(ctx, command, script, "amqp://guest:guest@"+addr.String()+"/%2F")
	client.Env = append(os.Environ(), environment)
	out, err := client.CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "ok" {
		t.Errorf("%s: %v\n%s", script, err, out)
	}
}
