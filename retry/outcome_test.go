package retry

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestMarksOfNothingAreNothing(t *testing.T) {
	for name, err := range map[string]error{
		"permanent": Permanent(nil), "after": After(time.Second, nil),
		"class": Class("a", nil), "unavailable": Unavailable(nil), "at least": AtLeast(time.Second, nil),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMarksKeepTheError(t *testing.T) {
	for name, err := range map[string]error{
		"permanent": Permanent(errBroken), "after": After(time.Second, errBroken),
		"class": Class("a", errBroken), "unavailable": Unavailable(errBroken), "at least": AtLeast(time.Second, errBroken),
	} {
		if !errors.Is(err, errBroken) || err.Error() != errBroken.Error() {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTypeOf(t *testing.T) {
	for want, err := range map[string]error{
		"*errors.errorString": fmt.Errorf("saving: %w", Permanent(Class("a", errBroken))),
		"timeout":             fmt.Errorf("asking: %w", context.DeadlineExceeded),
		"*retry.PanicError":   &PanicError{Value: 1},
	} {
		if got := TypeOf(err); got != want {
			t.Errorf("%v: got %s, want %s", err, got, want)
		}
	}
}

func TestClassOf(t *testing.T) {
	if got := ClassOf(errBroken); got != DefaultClass {
		t.Error(got)
	}
	if got := ClassOf(Class("", Class("inner", errBroken))); got != DefaultClass {
		t.Error(got)
	}
	if got := ClassOf(Permanent(Class("inner", errBroken))); got != "inner" {
		t.Error(got)
	}
}
