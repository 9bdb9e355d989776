package wording

import (
	"os/exec"
	"testing"
)

func TestPlural(t *testing.T) {
	for n, want := range map[int]string{0: "0 queues", 1: "1 queue", 2: "2 queues"} {
		if got := Plural(n, "queue"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A shell reads back what was quoted.
func TestQuoted(t *testing.T) {
	for _, argument := range []string{"", "/", "a b", "a\nb", "it's", `$HOME "x" \`, "a;b|c&d", "*?[x]#~!{}", "^(a|b)$"} {
		got, err := exec.Command("sh", "-c", `set -- `+Quoted(argument)+`; printf '%s %s' $# "$1"`).Output()
		if err != nil || string(got) != "1 "+argument {
			t.Errorf("%s: the shell reads %q, %v", argument, got, err)
		}
	}
}

// A server's text neither ends its line nor changes the direction of the rest.
func TestOneLine(t *testing.T) {
	if got, want := OneLine("a\r\n\x1b[31mb\u202ec\xff"), "a   [31mb\ufffdc\ufffd"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
