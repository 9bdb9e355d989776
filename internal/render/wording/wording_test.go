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

func TestPercent(t *testing.T) {
	for parts, want := range map[[2]int]string{
		{0, 0}: "0 %", {0, 9}: "0 %", {9, 9}: "100 %", {1, 1000}: "<1 %", {999, 1000}: ">99 %", {1, 3}: "33 %", {2, 3}: "67 %", {1, 100}: "1 %", {99, 100}: "99 %",
	} {
		if got := Percent(parts[0], parts[1]); got != want {
			t.Errorf("%v: got %q, want %q", parts, got, want)
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

func TestRate(t *testing.T) {
	for perSecond, want := range map[float64]string{
		0: "0/s", 1: "1/s", 4.24: "4.2/s", 12.6: "13/s", 1234: "1234/s", 0.5: "30/min", 1.0 / 60: "1/min", 0.01: "36/h", 1.0 / 7200: "12/day", 1e-6: "0.1/day",
	} {
		if got := Rate(perSecond); got != want {
			t.Errorf("%v is %s, want %s", perSecond, got, want)
		}
	}
}
