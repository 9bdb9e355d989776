package wire

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/internal/wire/wiretest"
	"github.com/watershipmq/watership/schemas"
)

// fullState has every field, at its greatest length.
func fullState(fingerprint string) schemas.State {
	at := time.Date(2026, 5, 4, 3, 2, 1, 123456789, time.UTC)
	s := schemas.State{
		Version: header.Version, Fingerprint: fingerprint, Message: "01J", EventID: strings.Repeat("e", longestID),
		Delay: 10 * time.Second, Waits: 3, WaitsSince: at, MissingSince: at, NotBefore: at, Undecided: true, Parent: "v1:" + strings.Repeat("p", 64),
		OriginClaimed: true, Untapped: true,
		Replay: strings.Repeat("j", longestJob), ReplayOf: strings.Repeat("o", longestID),
	}
	long := func(c string, size int) string { return strings.Repeat(c, size) }
	for range mostAttempts {
		s = s.Failed(at, time.Second, long("q", 255), schemas.Failure{
			Message: long("m", errorBudget), Type: long("t", errorBudget/4), Class: long("c", errorBudget/8), Stack: long("s", stackBudget),
		})
	}
	return s
}

func TestWrapIsUndone(t *testing.T) {
	for name, e := range map[string]schemas.Envelope{
		"everything": wiretest.EveryEnvelope(), "nothing": {}, "default exchange": {RoutingKey: "orders", Body: []byte("x")},
		"just room": nearlyFull(frameMax - stateRoom - deathRoom),
		"no room":   nearlyFull(frameMax - stateRoom - deathRoom + 1),
		"full":      nearlyFull(frameMax),
		"redacted":  {RoutingKey: "orders", Body: []byte("x"), Redacted: true}, "redacted without room": redacted(nearlyFull(frameMax)),
	} {
		t.Run(name, func(t *testing.T) {
			state := fullState(e.Fingerprint())
			p := DefaultFrameMax.Wrap(e, state)
			if p.Expiration != "" || p.UserId != "" || p.Priority != 0 || p.DeliveryMode != amqp.Persistent || p.Headers["CC"] != nil {
				t.Errorf("one of the five properties travels as it is: %+v", p)
			}
			if size := HeaderFrameSize(p); size > frameMax-deathRoom {
				t.Errorf("a header frame of %d bytes", size)
			}
			got, gotState, err := Unwrap(wiretest.Arriving(p, "watership.events", "poisoned"))
			if err != nil {
				t.Fatal(err)
			}
			wiretest.WantEnvelope(t, got, e)
			if !strings.HasPrefix(state.Failure.Stack, strings.TrimSuffix(gotState.Failure.Stack, "…")) {
				t.Error("another stack")
			}
			state.Failure.Stack, gotState.Failure.Stack = "", ""
			if diff := cmp.Diff(state, gotState); diff != "" {
				t.Errorf("the state changed on its way (-want +got):\n%s", diff)
			}
		})
	}
}

func redacted(e schemas.Envelope) schemas.Envelope {
	e.Redacted = true
	return e
}

// nearlyFull returns an envelope whose properties and headers have size bytes in a
// frame.
func nearlyFull(size int) schemas.Envelope {
	e := wiretest.EveryEnvelope()
	e.Headers["filler"] = ""
	e.Headers["filler"] = strings.Repeat("f", size-HeaderFrameSize(e.Publishing()))
	return e
}

func TestOnlyWithoutRoomIsABodyWrapped(t *testing.T) {
	for size, want := range map[int]bool{1000: false, frameMax - stateRoom - deathRoom: false, frameMax - stateRoom - deathRoom + 1: true, frameMax: true} {
		e := nearlyFull(max(size, HeaderFrameSize(wiretest.EveryEnvelope().Publishing())+10))
		p := DefaultFrameMax.Wrap(e, fullState(e.Fingerprint()))
		if _, wrapped := p.Headers[headerWrapped]; wrapped != want || DefaultFrameMax.LeavesRoom(e) == want {
			t.Errorf("%d bytes: wrapped %v, leaves room %v", size, wrapped, DefaultFrameMax.LeavesRoom(e))
		}
	}
}

// A message fits a connection with smaller frames than RabbitMQ's default.
func TestWrapFitsTheFrame(t *testing.T) {
	for _, limit := range []FrameMax{8 << 10, 16 << 10, 64 << 10, frameMax, 1 << 20} {
		room := limit.limit() - limit.stateRoom() - limit.deathRoom()
		for _, size := range []int{1 << 10, room, room + 1, limit.limit()} {
			e := nearlyFull(max(size, HeaderFrameSize(wiretest.EveryEnvelope().Publishing())+10))
			if fits := HeaderFrameSize(e.Publishing()) <= room; limit.LeavesRoom(e) != fits {
				t.Errorf("%d bytes in frames of %d: leaves room %t", size, limit, limit.LeavesRoom(e))
			}
			state := fullState(e.Fingerprint())
			p := limit.Wrap(e, state)
			if got := HeaderFrameSize(p); got > limit.limit()-limit.deathRoom() {
				t.Errorf("%d bytes in frames of %d: a header frame of %d bytes", size, limit, got)
			}
			got, gotState, err := Unwrap(wiretest.Arriving(p, "", "watership.poison"))
			if err != nil || gotState.Fingerprint != state.Fingerprint || gotState.Message != state.Message || gotState.Attempt != state.Attempt {
				t.Errorf("%d bytes in frames of %d: %+v %v", size, limit, gotState, err)
			}
			wiretest.WantEnvelope(t, got, e)
			if got := HeaderFrameSize(limit.WrapForQueue(e, state, "guest")); size < limit.limit()-300 && got > limit.limit() {
				t.Errorf("%d bytes in frames of %d: a header frame of %d bytes on the last hop", size, limit, got)
			}
		}
	}
}

// The body of a message that travels without it is found by its fingerprint, and a
// header has its place.
// The span of a message is the first that goes where there is no room, so that traces cost nothing else.
func TestTheSpanGoesFirst(t *testing.T) {
	const span = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	without := schemas.State{Fingerprint: "v1:0", Message: "m", Queue: "q", Replay: "r", Progress: "half", Failure: schemas.Failure{Message: "broken", Stack: strings.Repeat("s", 64)}}
	with := without
	with.Trace = span
	for name, wrap := range map[string]func(FrameMax, schemas.Envelope, schemas.State) amqp.Publishing{
		"queues of Watership": func(f FrameMax, e schemas.Envelope, s schemas.State) amqp.Publishing {
			return f.shortened(wrapInHeaders(e, s))
		},
		"an exchange": func(f FrameMax, e schemas.Envelope, s schemas.State) amqp.Publishing {
			return f.WrapForExchange(e, s, "guest")
		},
	} {
		e := nearlyFull(4 << 10)
		whole := HeaderFrameSize(wrap(FrameMax(1<<20), e, without))
		limit := FrameMax(whole)
		for ; HeaderFrameSize(wrap(limit, e, without)) < whole; limit += 8 { // to the least with room for all but the span
		}
		if got := wrap(limit, e, with); HeaderFrameSize(got) != whole || got.Headers[headerTrace] != nil {
			t.Errorf("%s: with a span %d bytes of %d, and the span %v", name, HeaderFrameSize(got), whole, got.Headers[headerTrace])
		}
		if got := wrap(limit+128, e, with).Headers[headerTrace]; got != span {
			t.Errorf("%s: with room the span is %v", name, got)
		}
	}
}

func TestBodyInAnotherQueue(t *testing.T) {
	e := nearlyFull(frameMax)
	state := fullState(e.Fingerprint())
	kept, keptState, err := Unwrap(wiretest.Arriving(DefaultFrameMax.WrapBody(e, state), "", "watership.unstorable"))
	if err != nil || keptState.Fingerprint != state.Fingerprint || !bytes.Equal(kept.Body, e.Body) {
		t.Errorf("%+v %v", keptState, err)
	}
	rest := wiretest.Arriving(DefaultFrameMax.WrapWithoutBody(e, state, OmittedBody{len(e.Body), schemas.BodyInUnstorable}), "watership.events", "poisoned")
	got, _, err := Unwrap(rest)
	body, omitted := OmittedBodyOf(rest)
	if !omitted || body.Size != len(e.Body) || body.In != schemas.BodyInUnstorable || err != nil {
		t.Errorf("%+v %v", body, err)
	}
	got.Body = e.Body
	wiretest.WantEnvelope(t, got, e)
	event, err := (Decoder{}).Lifecycle(amqp.Delivery{
		Exchange: "watership.events", RoutingKey: "poisoned", Headers: rest.Headers, Body: rest.Body,
	}, time.Now(), 1)
	if err != nil || event.BodyIn != schemas.BodyInUnstorable || event.BodySize != len(e.Body) {
		t.Errorf("%+v %v", event.BodyIn, err)
	}
}

func TestWrapWithoutBodySaysItsSize(t *testing.T) {
	for _, e := range []schemas.Envelope{wiretest.EveryEnvelope(), nearlyFull(frameMax)} {
		p := DefaultFrameMax.WrapWithoutBody(e, schemas.State{EventID: "01K", Fingerprint: e.Fingerprint()}, OmittedBody{Size: len(e.Body), In: schemas.BodyInPublished})
		event, err := Decoder{}.Lifecycle(amqp.Delivery{
			Exchange: schemas.Topology{}.Events(), RoutingKey: "handled", Headers: p.Headers, Body: p.Body,
			ContentType: p.ContentType, ContentEncoding: p.ContentEncoding, CorrelationId: p.CorrelationId,
			ReplyTo: p.ReplyTo, MessageId: p.MessageId, Timestamp: p.Timestamp, Type: p.Type, AppId: p.AppId,
		}, time.Now(), 7)
		if err != nil {
			t.Fatal(err)
		}
		if event.BodySize != len(e.Body) || event.BodyIn != schemas.BodyInPublished || len(event.Envelope.Body) != 0 || event.Sequence != 7 {
			t.Errorf("got %+v", event)
		}
		e.Body = nil
		wiretest.WantEnvelope(t, event.Envelope, e)
	}
}

func TestTheLastHopRestoresTheProperties(t *testing.T) {
	for _, login := range []string{"guest", "watership"} {
		e := wiretest.EveryEnvelope()
		state := fullState(e.Fingerprint())
		p := DefaultFrameMax.WrapForQueue(e, state, login)
		got := returned(p)
		want := e.Properties
		if login != want.UserID {
			want.UserID = ""
		}
		if got.Properties != want || got.Headers["CC"] != nil {
			t.Errorf("as %s: got %+v and CC %v, want %+v", login, got.Properties, got.Headers["CC"], want)
		}
		v := verified(t, got, state.Queue)
		if v.Mismatch {
			t.Fatal("its own state does not count")
		}
		wiretest.WantEnvelope(t, v.Envelope, e)
	}
}

func TestTheLastHopFits(t *testing.T) {
	for _, size := range []int{frameMax - stateRoom - deathRoom, frameMax - stateRoom - deathRoom + 1, frameMax - 3000} {
		e := nearlyFull(size)
		state := fullState(e.Fingerprint())
		p := DefaultFrameMax.WrapForQueue(e, state, "")
		if got := HeaderFrameSize(p); got > frameMax {
			t.Errorf("headers of %d bytes become %d", size, got)
		}
		if v := verified(t, returned(p), state.Queue); v.State.Replay != state.Replay {
			t.Errorf("headers of %d bytes: its mark does not count: %+v", size, v.State)
		}
	}
}

func TestAReplayIsAsFirstPublished(t *testing.T) {
	for _, login := range []string{"guest", "watership"} {
		e := wiretest.EveryEnvelope()
		p := DefaultFrameMax.WrapForExchange(e, fullState(e.Fingerprint()), login)
		if login == e.Properties.UserID && p.UserId != login || login != e.Properties.UserID && p.UserId != "" {
			t.Errorf("as %s the user is %q", login, p.UserId)
		}
		v := verifier().VerifyMark(wiretest.Arriving(p, e.Exchange, e.RoutingKey))
		want := schemas.State{Fingerprint: e.Fingerprint(), Replay: fullState("").Replay, ReplayOf: fullState("").ReplayOf}
		e.Properties.UserID = p.UserId
		wiretest.WantEnvelope(t, v.Envelope, e)
		if diff := cmp.Diff(want, v.State); diff != "" {
			t.Errorf("the mark (-want +got):\n%s", diff)
		}
	}
	full := nearlyFull(frameMax)
	if p := DefaultFrameMax.WrapForExchange(full, fullState(full.Fingerprint()), "guest"); HeaderFrameSize(p) > frameMax {
		t.Errorf("a replay has a frame of %d bytes", HeaderFrameSize(p))
	}
}

func TestUnwrapTakesWhatIsNotWrapped(t *testing.T) {
	plain := schemas.Envelope{Exchange: "shop", RoutingKey: "k", Headers: amqp.Table{"tenant": "acme"}, Body: []byte("x")}
	got, state, err := Unwrap(plain)
	if err != nil || state.Version != 0 {
		t.Fatalf("%+v %v", state, err)
	}
	wiretest.WantEnvelope(t, got, plain)
	for i, body := range [][]byte{nil, {0, 0, 0}, {0, 0, 0, 9, '{', '}'}, {0, 0, 0, 1, '{'}, bytes.Repeat([]byte{0xff}, 9), []byte("\x00\x00\x00\x16{\"headers\":[{\"key\":1}]}")} {
		t.Run(fmt.Sprint("another form ", i), func(t *testing.T) {
			e := plain
			e.Headers = amqp.Table{"tenant": "acme", headerWrapped: int64(1)}
			e.Body = body
			got, _, err := Unwrap(e)
			if err != nil {
				t.Fatal(err)
			}
			want := plain
			want.Body = body
			wiretest.WantEnvelope(t, got, want)
		})
	}
	var newer *NewerVersionError
	if _, _, err := Unwrap((schemas.Envelope{Headers: amqp.Table{headerVersion: int32(header.Version + 1)}})); !errors.As(err, &newer) {
		t.Errorf("a newer version: %v", err)
	}
}

func TestWhatTheBrokerAddedDoesNotTravel(t *testing.T) {
	e := schemas.Envelope{Exchange: "shop", Headers: amqp.Table{
		"x-death": []any{}, "x-first-death-queue": "a", "x-last-death-reason": "b", "x-delivery-count": int64(3), "x-custom": "mine",
	}}
	for name, p := range map[string]amqp.Publishing{
		"between queues": DefaultFrameMax.Wrap(e, schemas.State{}), "last hop": DefaultFrameMax.WrapForQueue(e, schemas.State{}, ""), "replay": DefaultFrameMax.WrapForExchange(e, schemas.State{}, ""),
	} {
		for header := range p.Headers {
			if strings.HasPrefix(header, "x-") && header != "x-custom" {
				t.Errorf("%s: %s travels", name, header)
			}
		}
		if p.Headers["x-custom"] != "mine" {
			t.Errorf("%s: a header of the publisher is gone", name)
		}
	}
}

// A broker that sets the times of messages on every hop changes no message, whether
// the message was first published before or after the broker was configured to.
func TestTimesThatBrokersSet(t *testing.T) {
	first, later := time.Unix(1700000000, 0), time.Unix(1800000000, 0)
	set := map[string]func(*amqp.Publishing){
		"not":         func(*amqp.Publishing) {},
		"where unset": func(p *amqp.Publishing) { setTimes(p, later, false) },
		"always":      func(p *amqp.Publishing) { setTimes(p, later, true) },
	}
	for name, e := range map[string]schemas.Envelope{
		"no times":           {Headers: amqp.Table{"a": "b"}},
		"a publisher's time": {Properties: schemas.Properties{Timestamp: first}},
		"at the epoch":       {Properties: schemas.Properties{Timestamp: time.Unix(0, 0)}},
		"a broker's times":   {Properties: schemas.Properties{Timestamp: first}, Headers: amqp.Table{header.BrokerTime: first.UnixMilli()}},
		"a strange time":     {Headers: amqp.Table{header.BrokerTime: "noon"}},
	} {
		for how, broker := range set {
			t.Run(name+", set "+how, func(t *testing.T) {
				e.Exchange, e.RoutingKey, e.Properties.MessageID = "shop", "order.paid", "m"
				state := schemas.State{Fingerprint: e.Fingerprint(), Queue: "orders", Replay: "job"}
				hop := DefaultFrameMax.Wrap(e, state)
				broker(&hop)
				due, _, err := Unwrap(wiretest.Arriving(hop, "", "watership.due"))
				if diff := cmp.Diff(e, due, cmpopts.EquateEmpty()); diff != "" || err != nil || due.Fingerprint() != state.Fingerprint {
					t.Errorf("from one of our queues to another: %v\n%s", err, diff)
				}
				back := DefaultFrameMax.WrapForQueue(due, state, "guest")
				broker(&back)
				v := verified(t, returned(back), "orders")
				if diff := cmp.Diff(e, v.Envelope, cmpopts.EquateEmpty()); diff != "" || v.Mismatch {
					t.Errorf("back at its queue: %+v\n%s", v.State, diff)
				}
				replay := DefaultFrameMax.WrapForExchange(e, state, "guest")
				broker(&replay)
				v = verifier().VerifyMark(wiretest.Arriving(replay, e.Exchange, e.RoutingKey))
				if diff := cmp.Diff(e, v.Envelope, cmpopts.EquateEmpty()); diff != "" || v.State.Replay != "job" {
					t.Errorf("replayed: %+v\n%s", v.State, diff)
				}
			})
		}
	}
}

// setTimes sets the times as RabbitMQ does with
// message_interceptors.incoming.set_header_timestamp.
func setTimes(p *amqp.Publishing, now time.Time, overwrite bool) {
	p.Headers = maps.Clone(p.Headers)
	if p.Timestamp.IsZero() || overwrite {
		p.Timestamp = now
	}
	if _, present := p.Headers[header.BrokerTime]; !present || overwrite {
		p.Headers[header.BrokerTime] = now.UnixMilli()
	}
}
