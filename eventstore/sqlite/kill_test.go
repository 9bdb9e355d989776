package sqlite

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
)

// childEnv names the environment variable with which the test binary writes events to a
// path until it is killed.
const childEnv = "WATERSHIP_TEST_SQLITE_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		if err := writeUntilKilled(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// writeUntilKilled prints the id of each event when it is acknowledged.
func writeUntilKilled(path string) error {
	ctx := context.Background()
	s, err := Open(ctx, Config{Path: path})
	if err != nil {
		return err
	}
	if err := s.Install(ctx); err != nil {
		return err
	}
	for n := 1; ; n += 20 {
		docs := eventDocuments(fmt.Sprint(os.Getpid(), "-"), n, n+19)
		results, err := s.Create(ctx, docs)
		if err != nil {
			return err
		}
		var acknowledged bytes.Buffer
		for i, result := range results {
			if result.Status == eventstore.Created {
				fmt.Fprintln(&acknowledged, docs[i].ID)
			}
		}
		if _, err := os.Stdout.Write(acknowledged.Bytes()); err != nil {
			return err
		}
	}
}

// startWriter starts a child process and scans the ids that it acknowledges.
func startWriter(t *testing.T, path string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	command := exec.CommandContext(t.Context(), os.Args[0])
	command.Env = append(os.Environ(), childEnv+"="+path)
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	return command, bufio.NewScanner(out)
}

// TestKilledAtAnyMoment: every acknowledged event is in the file, and the file is consistent.
func TestKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	var acknowledged []string
	for range 8 {
		command, lines := startWriter(t, path)
		more := 1 + rand.IntN(200)
		for ; more > 0 && lines.Scan(); more-- {
			acknowledged = append(acknowledged, lines.Text())
		}
		time.Sleep(rand.N(3 * time.Millisecond)) // so that it is killed at any point
		if err := command.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() { // printed before it ended
			acknowledged = append(acknowledged, strings.TrimSpace(lines.Text()))
		}
		if more > 0 || command.Wait() == nil {
			t.Fatal("the child ended by itself")
		}
	}
	s := open(t, Config{Path: path})
	wantConsistent(t, s)
	found, err := s.Find(t.Context(), acknowledged)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range acknowledged {
		if found[id].ID == "" {
			t.Errorf("%s was acknowledged and is gone", id)
		}
	}
	t.Logf("%d events acknowledged", len(acknowledged))
}

// wantConsistent checks the integrity of the file, and that each event is in all its
// tables.
func wantConsistent(t *testing.T, s *Store) {
	t.Helper()
	for statement, want := range map[string]string{
		"PRAGMA integrity_check": "ok",
		"SELECT count(*) FROM event LEFT JOIN document USING (n) WHERE head IS NULL":                                      "0",
		"SELECT count(*) FROM document WHERE n NOT IN (SELECT n FROM event)":                                              "0",
		"SELECT count(*) FROM number WHERE n NOT IN (SELECT n FROM event) OR key NOT IN (SELECT id FROM key)":             "0",
		"SELECT count(*) FROM posting WHERE doc NOT IN (SELECT n FROM event)":                                             "0",
		"SELECT count(*) FROM posting WHERE substr(term, 1, instr(term, '=')) NOT IN (SELECT printf('%x=', id) FROM key)": "0",
		`SELECT count(*) FROM event WHERE headers AND n NOT IN (SELECT doc FROM posting)`:                                 "0",
		`SELECT count(*) FROM event WHERE "body.text" AND n NOT IN (SELECT doc FROM word WHERE col = 'body.text')`:        "0",
		`SELECT count(*) FROM (SELECT * FROM tally EXCEPT SELECT "@timestamp" / 300000, coalesce("event.action", 0), coalesce("watership.queue", 0), count(*)
			FROM event GROUP BY 1, 2, 3)`: "0",
		"SELECT (SELECT coalesce(sum(events), 0) FROM tally) - count(*) FROM event": "0",
		"SELECT count(*) FROM word WHERE doc NOT IN (SELECT n FROM event)":          "0",
	} {
		var got string
		if err := s.readers.QueryRowContext(t.Context(), statement).Scan(&got); err != nil || got != want {
			t.Errorf("%s: got %q, %v", statement, got, err)
		}
	}
}
