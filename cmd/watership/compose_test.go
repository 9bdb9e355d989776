package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/compose"
)

// Every call of watership in the compose file is a command with these flags.
func TestComposeCommandsExist(t *testing.T) {
	file, err := compose.Read("../../docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range file.Commands() {
		root := newRoot(terminal{in: strings.NewReader(""), out: new(bytes.Buffer), err: new(bytes.Buffer)}, nil)
		command, rest, err := root.Find(args)
		if err != nil || command == root {
			t.Errorf("watership %s: no such command: %v", strings.Join(args, " "), err)
		} else if err := command.ParseFlags(rest); err != nil {
			t.Errorf("watership %s: %v", strings.Join(args, " "), err)
		}
	}
}
