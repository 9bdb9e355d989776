package wire

import (
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/wire/wiretest"
	"github.com/watershipmq/watership/schemas"
)

// A claim of an origin stays with a message whose headers leave no room for its attempts.
func TestClaimedOriginTravels(t *testing.T) {
	for name, e := range map[string]schemas.Envelope{"room": wiretest.EveryEnvelope(), "little room": nearlyFull(frameMax - 4*deathRoom + deathRoom/2)} {
		state := schemas.State{Fingerprint: e.Fingerprint(), Queue: "orders", Attempt: 2, OriginClaimed: true}
		p := DefaultFrameMax.WrapForQueue(e, state, "guest")
		verified, err := new(Verifier).Verify(wiretest.Arriving(p, schemas.Topology{}.Direct(), "orders"), schemas.Topology{}.Direct(), "orders")
		if err != nil || !verified.State.OriginClaimed || DefaultFrameMax.LeavesRoom(e) != (verified.State.Attempt == 2) {
			t.Errorf("%s: claimed %v, attempt %d, %v", name, verified.State.OriginClaimed, verified.State.Attempt, err)
		}
	}
}

// The progress of an attempt reaches the next one as a whole or not at all.
func TestProgressTravelsAsAWhole(t *testing.T) {
	all := strings.Repeat("p", progressBudget)
	small := wiretest.EveryEnvelope()
	justRoom := nearlyFull(frameMax - stateRoom - deathRoom)
	for name, test := range map[string]struct {
		e    schemas.Envelope
		sent string
		want string
	}{
		"none":         {small, "", ""},
		"some":         {small, `{"page": 7}`, `{"page": 7}`},
		"the most":     {small, all, all},
		"more":         {small, all + "p", ""},
		"no room":      {justRoom, all, ""},
		"a full frame": {nearlyFull(frameMax - 10), "x", ""},
	} {
		t.Run(name, func(t *testing.T) {
			state := fullState(test.e.Fingerprint())
			state.Queue, state.Progress = "orders", test.sent
			p := DefaultFrameMax.WrapForQueue(test.e, state, "guest")
			if size := HeaderFrameSize(p); size > frameMax {
				t.Errorf("a header frame of %d bytes", size)
			}
			verified, err := new(Verifier).Verify(wiretest.Arriving(p, schemas.Topology{}.Direct(), "orders"), schemas.Topology{}.Direct(), "orders")
			if err != nil || verified.State.Progress != test.want {
				t.Errorf("%d bytes of progress arrived as %d, %v", len(test.sent), len(verified.State.Progress), err)
			}
		})
	}
}
