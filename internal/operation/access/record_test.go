package access

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/watershipmq/watership/internal/operation/code"
)

// A command records what it did, also if it failed, and no dry run. Whether the record is needed
// depends on what its operator has said.
func TestCommandsRecordWhatTheyDo(t *testing.T) {
	ctx := NewContext(t.Context(), AsOperator("ada"))
	away, refused := errors.New("refused"), &Error{Code: code.Forbidden, Problem: "not you"}
	for name, test := range map[string]struct {
		action  Action
		err     error // of the action
		away    error // of the recorder
		named   bool
		status  int // of the record; 0: there is none
		isError bool
	}{
		"done":                    {action: Action{Name: "add"}, status: http.StatusOK},
		"failed":                  {action: Action{Name: "add"}, err: refused, status: http.StatusForbidden, isError: true},
		"a dry run":               {action: Action{Name: "add", DryRun: true}},
		"nothing described":       {action: Action{}},
		"unrecorded":              {action: Action{Name: "rewrite"}, away: away},
		"unrecorded with a name":  {action: Action{Name: "rewrite"}, away: away, named: true, isError: true},
		"unrecorded with a why":   {action: Action{Name: "rewrite", Reason: "mended"}, away: away, isError: true},
		"failed and not recorded": {action: Action{Name: "rewrite"}, err: refused, away: away, isError: true},
		"neither, with a name":    {action: Action{Name: "rewrite"}, err: refused, away: away, named: true, isError: true},
	} {
		kept := &records{err: test.away}
		err := Do(ctx, kept, test.named, func(ctx context.Context) error {
			Describe(ctx, test.action)
			return test.err
		})
		needed := test.away != nil && (test.named || test.action.Reason != "")
		if (err != nil) != test.isError || test.err != nil && !errors.Is(err, test.err) || needed && !errors.Is(err, test.away) {
			t.Errorf("%s: %v", name, err)
		}
		list := kept.take()
		switch {
		case test.status == 0 && len(list) != 0:
			t.Errorf("%s: recorded %+v", name, list)
		case test.status != 0 && (len(list) != 1 || list[0].Status != test.status || list[0].Identity.Name != "ada" || list[0].Action != test.action):
			t.Errorf("%s: recorded %+v", name, list)
		}
	}
}
