package alerts

import (
	"context"
	"errors"
	"testing"

	"github.com/watershipmq/watership/internal/operate/doctor"
)

// A serve that starts is not ready, which fires no alert. It does once it was ready.
func TestAStartIsNoFinding(t *testing.T) {
	var isReady error
	diagnose := sinceReady(
		func(context.Context) error { return isReady },
		func(context.Context) []doctor.Finding {
			list := []doctor.Finding{{Check: "store", Verdict: doctor.OK}}
			if isReady != nil {
				list = append(list, doctor.Finding{Check: "serve", Verdict: doctor.Error, Detail: isReady.Error()})
			}
			return list
		})
	for _, c := range []struct {
		ready    error
		findings int
	}{
		{errors.New("the handlers do not consume yet"), 1},
		{errors.New("the handlers do not consume yet"), 1},
		{nil, 1},
		{errors.New("the store is away"), 2},
	} {
		isReady = c.ready
		if list := diagnose(t.Context()); len(list) != c.findings {
			t.Errorf("ready: %v, findings: %+v", c.ready, list)
		}
	}
}
