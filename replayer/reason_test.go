package replayer_test

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/watershipmq/watership/replayer"
)

// A program counts by reason what a plan leaves out.
func ExampleReasons() {
	plan := replayer.Plan{LeftOut: map[replayer.Reason]int{replayer.AlreadyReplayed: 3, replayer.SameMessage: 1}}
	for _, reason := range replayer.Reasons() {
		if n := plan.LeftOut[reason]; n > 0 {
			fmt.Println(n, reason)
		}
	}
	// Output:
	// 1 same_message
	// 3 already_replayed
}

func TestReasonsAreCodes(t *testing.T) {
	seen := map[replayer.Reason]bool{}
	for _, reason := range replayer.Reasons() {
		if !regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`).MatchString(string(reason)) || seen[reason] {
			t.Errorf("%q is no code, or is there twice", reason)
		}
		seen[reason] = true
	}
}
