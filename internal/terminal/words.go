package terminal

import (
	"fmt"
	"strings"
	"time"
)

// Time formats a time in the zone of the machine, to the millisecond.
func Time(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05.000") }

// Plural is a number with the noun that it counts.
func Plural(n int, what string) string {
	if n == 1 {
		return fmt.Sprintf("%d %s", n, what)
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Quoted quotes an argument for a shell, where it needs quotes.
func Quoted(argument string) string {
	if !strings.ContainsAny(argument, " \t'\"\\$`&|;<>()*?[]#~!{}") {
		return argument
	}
	return "'" + strings.ReplaceAll(argument, "'", `'\''`) + "'"
}
